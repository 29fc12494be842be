"""The demo is the first thing that a newcomer runs."""

import json

import pytest

from tests.cli.runner import kgm


@pytest.mark.slow
def test_the_demo_predicts_what_then_happens():
    run = kgm("demo", "-o", "json")
    assert run.code == 0, run
    document = json.loads(run.out)
    checks = {check["name"]: check for check in document["data"]["checks"]}
    assert checks.keys() == {"bounce", "removal"}
    assert all(check["holds"] for check in checks.values())
    # A static member that is back in time costs nothing (KIP-345); its removal costs one rebalance.
    assert checks["bounce"]["actual"] == {"rebalances": 0, "moves": []}
    assert checks["removal"]["actual"]["rebalances"] == 1
    freed = [move for move in checks["removal"]["actual"]["moves"] if move["from"] == "payments-3"]
    assert sorted(move["partition"] for move in freed) == [8, 9, 10, 11]


@pytest.mark.slow
def test_the_demo_tells_a_story():
    run = kgm("demo")
    assert run.code == 0, run
    assert "kgm describe payments" in run.out
    assert run.out.count("the prediction held") == 2
    assert "payments-1  refused  alive: it committed" in run.out
    assert "payments-3  removed  stopped: it committed nothing for" in run.out
    assert "$ kgm history explain payments\ngeneration 1 -> 2" in run.out
    assert "\x1b" not in run.out
