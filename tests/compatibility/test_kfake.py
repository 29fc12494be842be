"""A broker that nobody at Apache wrote: franz-go's kfake, built here where Go is installed.

What is different there, and kgm has to live with: no `__consumer_offsets`, so no session timeouts and no history; API
versions of no release; client hosts with a port."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import Run, kgm
from tests.kafka.jars import cache_dir, locked
from tests.kafka.members import RdMembers, wait_settled
from tests.kafka.process import Child
from tests.needs import missing, needs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SOURCE = Path(__file__).parent / "kfake"
GROUP, TOPIC, PARTITIONS = "g", "orders", 6
_BUILD_S = 400


@pytest.fixture(scope="module")
def program() -> Path:
    """The built broker, once for each version of its source."""
    go = needs("go")
    out = cache_dir() / "kfake" / "broker"
    mark = out.with_suffix(".source")
    text = "\n".join(path.read_text() for path in sorted(SOURCE.iterdir()))
    with locked("kfake"):
        if not out.exists() or not mark.exists() or mark.read_text() != text:
            out.parent.mkdir(exist_ok=True)
            done = subprocess.run(
                [go, "build", "-o", str(out), "."], cwd=SOURCE, capture_output=True, text=True, timeout=_BUILD_S,
                check=False,
            )  # fmt: skip
            if done.returncode:
                missing("kfake", f"it cannot be built: {done.stderr[-500:]}")
            mark.write_text(text)
    return out


@pytest.fixture(scope="module")
def broker(program, tmp_path_factory) -> Iterator[str]:
    """The address of a broker on which a group of two static members is stable."""
    child = Child([str(program)], log=tmp_path_factory.mktemp("kfake") / "broker.log", pipe_stdout=True)
    try:
        bootstrap = child.stdout.readline().strip()
        with RdMembers(bootstrap) as members:
            fleet = [
                members.start(
                    group=GROUP, topics=[TOPIC], instance_id=name, assignor="range", session_timeout_ms=30_000
                )
                for name in ("a", "b")
            ]
            wait_settled(fleet, PARTITIONS)
            yield bootstrap
    finally:
        child.kill()
        child.stdout.close()


def ask(broker: str, *words: str) -> Run:
    done = kgm(*words, "-b", broker, "--timeout", "20s")
    assert "Traceback" not in done.err, done.err
    assert "internal error" not in done.err, done.err
    return done


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "--state", "stable"],
        ["describe", GROUP],
        ["describe", GROUP, "--offsets"],
        ["config", "test", "-g", GROUP],
        ["watch", GROUP, "--count", "2", "--interval", "200ms"],
        ["wait", GROUP, "--for", "stable", "--for", "members=2"],
        ["doctor", GROUP, "--window", "0s", "--fail-on", "never"],
        ["diff", f"live:{GROUP}", f"live:{GROUP}", "--exit-code"],
    ],
    ids=" ".join,
)
def test_a_command_that_reads_works(broker, words):
    done = ask(broker, *words)
    assert done.code == 0, done
    assert GROUP in done.out.split() or words[0] == "config", done.out


def test_it_is_of_no_release_and_a_prediction_says_so(broker):
    assert "not a release of Apache Kafka that kgm knows" in ask(broker, "config", "test").out
    data = json.loads(ask(broker, "simulate-bounce", GROUP, "--all", "-o", "json").out)["data"]
    (scenario,) = data["scenarios"]
    assert data["plan"]["kafka_version"] == "4.3"
    assert any("not a release of Apache Kafka" in caveat for caveat in scenario["caveats"])
    assert scenario["exact"] is False
    assert scenario["rebalances"] == 0
    overridden = json.loads(
        ask(broker, "simulate-bounce", GROUP, "--all", "--kafka-version", "3.9", "-o", "json").out
    )["data"]  # fmt: skip
    assert not any("not a release of Apache Kafka" in caveat for caveat in overridden["scenarios"][0]["caveats"])


@pytest.mark.parametrize("command", ["rebalances", "explain"])
def test_a_history_that_is_not_there_is_said_to_be_missing(broker, command):
    done = ask(broker, "history", command, GROUP)
    assert done.code == 3
    assert done.err.startswith("error: the brokers report no topic __consumer_offsets")


def test_a_member_that_nothing_shows_to_be_stopped_is_not_removed(broker):
    done = ask(broker, "remove-members", GROUP, "--instance-ids", "a", "--yes", "--guard-window", "300ms", "-o", "json")
    assert done.code == 6
    (result,) = json.loads(done.out)["data"]["results"]
    assert (result["result"], result["liveness"]["verdict"]) == ("refused", "unknown")
