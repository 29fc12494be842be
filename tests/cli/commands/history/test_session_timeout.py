"""`--session-timeout`: what is given counts, and the evidence says that it was given."""

import json

import pytest

from tests.cli.commands.history.conftest import SEGMENTS
from tests.cli.runner import kgm


def departures(*options):
    """The evidence for departures of members of the consumer protocol, by group, and the confidences."""
    run = kgm("history", "rebalances", "--source", SEGMENTS, *options, "-o", "json")
    lines, confidences = {}, set()
    for row in json.loads(run.out)["data"]["rebalances"]:
        if row["group_type"] != "consumer":
            continue
        mine = [line for line in row["evidence"] if " is gone; " in line and "the session timeout is" in line]
        lines.setdefault(row["group_id"], []).extend(mine)
        if mine and row["cause"] in {"leave", "session-expiry", "admin-removal"}:
            confidences.add(row["confidence"])
    return {group: each for group, each in lines.items() if each}, confidences


@pytest.mark.long
@pytest.mark.slow
def test_what_is_given_for_all_groups_and_for_one():
    unknown, _ = departures()
    one, *others = sorted(unknown)
    assert others
    given, confidences = departures("--session-timeout", "45s", "--session-timeout", f"{one}=1m")
    assert given.keys() == unknown.keys()
    assert any("not known" in line for lines in unknown.values() for line in lines)
    assert all("the session timeout is 60 s (given)" in line for line in given[one])
    assert all("the session timeout is 45 s (given)" in line for group in others for line in given[group])
    assert "likely" in confidences


@pytest.mark.parametrize("text", ["soon", "=10s", "orders=", "0s", "orders=0"])
def test_what_is_no_session_timeout(text):
    run = kgm("history", "rebalances", "--source", SEGMENTS, "--session-timeout", text)
    assert run.code == 2
    assert "--session-timeout" in run.err


def test_a_store_was_explained_when_it_was_built(tmp_path):
    run = kgm("history", "rebalances", "--store", str(tmp_path), "--session-timeout", "10s")
    assert run.code == 2
    assert "explained when it was built" in run.err


def test_the_commands_that_come_next_give_it_too():
    run = kgm("history", "explain", "billing", "--source", SEGMENTS, "--session-timeout", "a b=10s", "-o", "json")
    steps = [step["command"] for step in json.loads(run.out)["data"]["next"]]
    steps = [each for each in steps if each is not None and "--source" in each]
    assert len(steps) >= 3
    assert all(each.endswith(f"--source {SEGMENTS} --session-timeout 'a b=10000ms'") for each in steps)
