"""The lines of docs/rollout.md for other tools: each carries a rolling restart of real clients out, with the tool's name as
a stand-in that restarts what it is told to."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.server import serve_in_thread
from tests import KGM, ROOT
from tests.cli.forked import run_forked
from tests.operations.rollout.units import JoinedUnits, environment

NAMES = ["invoicing-1", "invoicing-2", "invoicing-3"]
_PAGE = (ROOT / "docs" / "rollout.md").read_text()
(_BLOCK,) = re.findall(r"<!-- examples -->\n```sh\n(.*?)```", _PAGE, re.DOTALL)
EXAMPLES = [line for line in _BLOCK.splitlines() if not line.startswith("#")]
#: Where each tool has the name of what it restarts, in its arguments.
_TOOLS = {
    "ssh": r"app@(\S+)$", "docker": r"restart (\S+)$", "ansible": r"name=app@(\S+) ", "kubectl": r"delete pod (\S+)$",
    "systemctl": r"app@(\S+)$",
}  # fmt: skip
_STAND_IN = """#!{python} -SE
import json, re, subprocess, sys
words = " ".join(sys.argv[1:])
if {tool!r} == "kubectl" and "get pods" in words:
    print({pods!r})
    sys.exit()
sys.exit(subprocess.run([{unit!r}, "restart", re.search({pattern!r}, words)[1]]).returncode)
"""


@pytest.fixture(scope="module")
def server():
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"invoicing-in": 6}, settings=settings) as running:
        yield running


def test_there_is_one_for_each_tool():
    assert [shlex.split(line)[0] for line in EXAMPLES] == ["kgm"] * 5


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("line", EXAMPLES, ids=lambda line: line.partition("--exec ")[2].split()[0].strip("'"))
def test_an_example_restarts_every_member_once(line, server, tmp_path):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    group = f"invoicing-{tmp_path.name}"
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "invoicing-in"}) as units:
        units.form(server, NAMES)
        pods = json.dumps({"items": [{"metadata": {"name": name}} for name in NAMES]})
        for tool, pattern in _TOOLS.items():
            path = bin_folder / tool
            path.write_text(
                _STAND_IN.format(python=sys.executable, tool=tool, pods=pods, unit=units.command, pattern=pattern)
            )
            path.chmod(0o755)
        words = shlex.split(line)
        assert words[:3] == ["kgm", "rollout", "invoicing"]
        env = environment(tmp_path, server.bootstrap) | {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
        more = ["--settle", "0s", "--interval", "100ms", "--restart-time", "1s"]
        done = run_forked(["rollout", "--yes", group, *words[3:], *more], stdin="", environment=env, timeout_s=120)
        assert done.returncode == 0, done.stderr
        assert [name for _, name in units.calls] == NAMES


def _argo_arguments(group: str, bootstrap: str) -> list[str]:
    """What the Job of the AnalysisTemplate runs, on this group and server."""
    (text,) = re.findall(r"<!-- argo -->\n```yaml\n(.*?)```", _PAGE, re.DOTALL)
    (metric,) = yaml.safe_load(text)["spec"]["metrics"]
    job = metric["provider"]["job"]["spec"]
    assert (metric["failureLimit"], job["backoffLimit"]) == (0, 0)
    words = job["template"]["spec"]["containers"][0]["args"]
    assert words[0] == "watch"
    assert words[-2:] == ["-b", "kafka:9092"]
    return ["watch", group, *words[2:-2], "-b", bootstrap, "-o", "ndjson"]


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(("goes_away", "code"), [(False, 0), (True, 8)], ids=["restarts", "a pod stays away"])
def test_the_job_that_argo_runs_judges_its_restarts(goes_away, code, server, tmp_path):
    """Argo's part, the restart of one pod after another, is played by the units."""
    group = f"argo-{code}"
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "invoices"}) as units:
        units.form(server, NAMES)
        judge = subprocess.Popen(
            [*KGM, *_argo_arguments(group, server.bootstrap)], env=environment(tmp_path, server.bootstrap),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert judge.stdout.readline(), "it begins with how the group is"
            for name in NAMES:
                if goes_away and name == NAMES[-1]:
                    _take_over_from(units, name)
                    break
                units.stop(name)
                units.members[name] = units.start(name)
            out, err = judge.communicate(timeout=60)
        finally:
            judge.kill()
        assert judge.returncode == code, (out, err)


def _take_over_from(units: JoinedUnits, name: str) -> None:
    """The member is removed, and the others take its partitions over."""
    leaving = LeaveGroupRequest(group_id=units.group, members=[MemberIdentity(member_id="", group_instance_id=name)])
    units.members[name].wire.ask(leaving, version=5)
    others = [joiner for other, joiner in units.members.items() if other != name]
    for joiner in others:
        joiner.send_join()
    for joiner in others:
        joiner.receive_join()
    halves = ([0, 1, 2], [3, 4, 5])
    blobs = {
        joiner.member_id: encode_assignment(MemberAssignment(partitions={joiner.topic: half}))
        for joiner, half in zip(others, halves, strict=True)
    }
    for joiner in sorted(others, key=lambda one: one.member_id != one.leader):  # the leader first
        assert joiner.sync(blobs if joiner.member_id == joiner.leader else None).error_code == 0
