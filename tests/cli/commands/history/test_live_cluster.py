"""What `kgm history` answers about a live cluster says which one, and its commands address the same one."""

from __future__ import annotations

import json

import pytest

from kgm.cli.main import run
from kgm.server import serve_in_thread
from kgm.testing import QUICK_SETTINGS
from tests.client.joiners import form_group

COMMANDS = (
    "rebalances", "explain g", "timeline g", "movement g", "offsets g", "churn", "zombies", "timeouts",
    "simulate-fleet --scenario rolling",
)  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(topics={"orders": 2}, settings=QUICK_SETTINGS) as running:
        joiners = form_group(running, "g", ["a", None], "orders")
        yield running
        for joiner in joiners:
            joiner.close()


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
def test_the_envelope_has_the_address_of_the_cluster(server, words, capsys):
    assert run(["list", "-b", server.bootstrap, "-o", "json"]) == 0
    cluster = json.loads(capsys.readouterr().out)["cluster"]
    assert cluster["bootstrap"] == server.bootstrap
    assert run(["history", *words.split(), "-b", server.bootstrap, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cluster"] == cluster


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
def test_the_commands_that_it_prints_name_the_cluster(server, words, capsys):
    assert run(["history", *words.split(), "-b", server.bootstrap]) == 0
    printed = capsys.readouterr().out
    commands = [line for line in printed.splitlines() if " kgm " in line and "`" not in line]
    assert all(f" -b {server.bootstrap}" in line for line in commands)
    assert commands or words in ("timeline g", "movement g", "offsets g", "churn", "zombies", "timeouts")
