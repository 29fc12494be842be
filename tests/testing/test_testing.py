"""kgm.testing as other projects use it: its names, and a plugin that costs nothing where it is not asked for."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

import kgm.server
import kgm.testing

NAMES = {"QUICK_SETTINGS", "EmbeddedServer", "GroupWatch", "serve_in_thread"}
TIMEOUT_S = 120
CONFTEST = """
import json, sys

def pytest_sessionfinish(session):
    print("MODULES", json.dumps(sorted(name for name in sys.modules if name.split(".")[0] in ("kgm", "asyncio"))))
"""
SUITE_WITHOUT = """
def test_of_something_else():
    assert 1 + 1 == 2
"""
SUITE_WITH = """
import socket

def test_it_runs(kgm_coordinator):
    host, _, port = kgm_coordinator.bootstrap.rpartition(":")
    socket.create_connection((host, int(port)), timeout=10).close()
    kgm_coordinator.create_topic("orders", 3)
    assert kgm_coordinator.group("billing") is None

def test_each_has_its_own(kgm_coordinator):
    kgm_coordinator.create_topic("orders", 3)

def test_several_with_settings_of_their_own(kgm_coordinator_factory):
    one = kgm_coordinator_factory(topics={"orders": 1}, brokers=2)
    other = kgm_coordinator_factory(settings={"group.max.size": 2})
    assert one.bootstrap.count(",") == 1
    assert one.bootstrap != other.bootstrap
"""
SUITE_WITH_REPORT = """
import socket

def test_noise(kgm_coordinator):
    with socket.create_connection((kgm_coordinator.host, kgm_coordinator.port), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
        assert client.recv(1) == b""
"""


def run(folder, suite, *arguments):
    """Run pytest in a process of its own, away from the settings and plugins of this suite."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_suite.py").write_text(suite)
    plain = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:hypothesispytest", "-s"]
    command = [sys.executable, "-m", "pytest", "-q", *plain, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def modules(done):
    (line,) = [line for line in done.stdout.splitlines() if "MODULES" in line]
    return set(json.loads(line.partition("MODULES")[2]))


def test_the_names_are_those_of_the_documentation():
    assert set(kgm.testing.__all__) == NAMES
    assert kgm.testing.serve_in_thread is kgm.server.serve_in_thread
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kgm.testing.nothing  # noqa: B018


def test_the_quick_settings_are_settings_of_a_broker():
    with kgm.testing.serve_in_thread(settings=kgm.testing.QUICK_SETTINGS) as server:
        assert server.inspect(lambda view: view.groups()) == ()


def test_the_plugin_is_registered():
    (entry,) = [row for row in importlib.metadata.entry_points(group="pytest11") if row.name == "kgm"]
    assert entry.value == "kgm.testing.pytest_plugin"


@pytest.mark.long
@pytest.mark.slow
def test_a_suite_that_does_not_ask_for_it_imports_nothing(tmp_path):
    done = run(tmp_path, SUITE_WITHOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    without = run(tmp_path, SUITE_WITHOUT, "-p", "no:kgm")
    assert modules(done) - modules(without) == {"kgm", "kgm.testing", "kgm.testing.pytest_plugin", "kgm.version"}
    assert "kgm" not in run(tmp_path, SUITE_WITHOUT, "--markers").stdout
    assert "kgm" not in run(tmp_path, SUITE_WITHOUT, "--help").stdout.replace("kgm_coordinator", "")


@pytest.mark.slow
def test_a_suite_that_asks_for_it_gets_a_coordinator_for_each_test(tmp_path):
    done = run(tmp_path, SUITE_WITH, "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert {"kgm.server", "asyncio"} <= modules(done)


@pytest.mark.slow
def test_the_fixtures_are_listed_with_what_they_do(tmp_path):
    listed = run(tmp_path, SUITE_WITHOUT, "--fixtures").stdout
    assert "kgm_coordinator -- " in listed
    assert "kgm_coordinator_factory -- " in listed


@pytest.mark.long
@pytest.mark.slow
def test_what_a_coordinator_reports_is_a_warning_of_the_test(tmp_path):
    done = run(tmp_path, SUITE_WITH_REPORT)
    assert "1 passed, 1 warning" in done.stdout
    assert "kgm_coordinator: connection from 127.0.0.1 closed: a frame of 1195725856 bytes" in done.stdout
