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

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests import KGM, ROOT
from tests.operations.rollout.units import JoinedUnits, environment

NAMES = ["invoicing-1", "invoicing-2", "invoicing-3"]
_PAGE = (ROOT / "docs" / "rollout.md").read_text()
(_BLOCK,) = re.findall(r"<!-- examples -->\n```sh\n(.*?)```", _PAGE, re.DOTALL)
EXAMPLES = [line for line in _BLOCK.splitlines() if not line.startswith("#")]
#: Where each tool has the name of what it restarts, in its arguments.
_TOOLS = {
    "ssh": r"app@(\S+)$", "docker": r"restart (\S+)$", "ansible": r"^(\S+) ", "kubectl": r"delete pod (\S+)$",
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
        # The embedded server has no topic __consumer_offsets.
        more = ["--accept-unseen", "--settle", "0s", "--interval", "100ms", "--restart-time", "1s"]
        done = subprocess.run(
            [*KGM, "rollout", group, *words[3:], *more], env=env, capture_output=True, text=True, timeout=120, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [name for _, name in units.calls] == NAMES
