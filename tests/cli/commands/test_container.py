"""kgm in a container whose file system is read-only, as Kubernetes starts it: what cannot be written is printed."""

from __future__ import annotations

import errno
import json
import os
import pathlib

import pytest

from kgm.cli.main import run
from kgm.operations.settings.loading import load_settings
from kgm.testing import QUICK_SETTINGS, serve_in_thread
from tests.cli.environment import forget_settings
from tests.client.joiners import form_group

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(topics={"orders": 2}, settings=QUICK_SETTINGS) as started:
        yield started


@pytest.fixture
def group(server, request):
    """A group with members that have not left."""
    name = f"container-{request.node.name}"
    joiners = form_group(server, name, ["gone-1", "stays"], "orders")
    yield name
    for joiner in joiners:
        joiner.close()


@pytest.fixture
def read_only_state(mocker, monkeypatch, tmp_path):
    """The folder of the audit log cannot be made."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    error = OSError(errno.EROFS, os.strerror(errno.EROFS))
    mocker.patch.object(pathlib.Path, "mkdir", side_effect=error)
    return tmp_path / "state"


def test_a_removal_whose_audit_log_is_read_only_prints_its_records(server, group, read_only_state, capsys):
    line = ["remove-members", group, "-i", "gone-1", "--yes", "--assume-stopped", "--guard-window", "0s"]
    assert run([*line, "-b", server.bootstrap, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["data"]["results"][0]["result"] == "removed"
    assert f"read-only file system ({read_only_state}/kgm/audit.jsonl)" in err
    records = [json.loads(text) for text in err.splitlines() if text.startswith("{")]
    assert [(one["event"], one["group_instance_id"]) for one in records] == [
        ("intent", "gone-1"),
        ("outcome", "gone-1"),
    ]
    assert records[1]["result"] == "removed"


def test_another_failure_of_the_audit_log_still_refuses(server, group, mocker, monkeypatch, tmp_path, capsys):
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mocker.patch.object(pathlib.Path, "mkdir", side_effect=OSError(errno.EACCES, os.strerror(errno.EACCES)))
    line = ["remove-members", group, "-i", "gone-1", "--yes", "--assume-stopped", "--guard-window", "0s"]
    assert run([*line, "-b", server.bootstrap]) == 6
    assert "the audit log cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "warns"), [(os.ST_RDONLY, False), (0, True)])
def test_a_mounted_secret_is_no_reason_to_warn(mocker, tmp_path, flags, warns):
    path = tmp_path / "client.properties"
    path.write_text('sasl.jaas.config=x password="secret";\n')
    path.chmod(0o644)
    real = os.statvfs(path)
    mocker.patch("os.statvfs", return_value=os.statvfs_result([*tuple(real)[:8], flags, *tuple(real)[9:]]))
    loaded = load_settings(overrides={}, properties_file=str(path), profile=None)
    assert bool(loaded.warnings) is warns
