"""The demo is the first thing that a newcomer runs. It takes half a minute: what it does once is shown in both forms."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from kgm.cli.main import run
from kgm.cli.output.output_options import FORMATS
from kgm.operations.demo import demo as operation
from kgm.operations.demo.demo import (
    INSTANCE_IDS,
    BounceDone,
    BouncePredicted,
    CoordinatorStarted,
    DemoStep,
    GroupFormed,
    HistoryAsked,
    MemberRemoved,
    MemberStopped,
    RemovalDone,
    RemovalRefused,
)

pytestmark = [pytest.mark.slow, pytest.mark.scenes]


def printed(*words: str) -> str:
    """stdout of a command that succeeds."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(words) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def played() -> tuple[list[DemoStep], str, dict[str, str]]:
    """The steps of a demo, what it printed as they came, and its output in each other format."""
    steps: list[DemoStep] = []

    def watched(running: Iterator[DemoStep]) -> Iterator[DemoStep]:
        with closing(running):  # type: ignore[type-var]
            for step in running:
                steps.append(step)
                yield step

    with pytest.MonkeyPatch.context() as patch:
        real = operation.run_demo
        patch.setattr(operation, "run_demo", lambda: watched(real()))
        text = printed("demo")
        patch.setattr(operation, "run_demo", lambda: (step for step in steps))
        return steps, text, {one: printed("demo", "-o", one) for one in FORMATS if one not in ("table", "wide")}


def verdict_of(step):
    (one,) = step.results
    return one.result.value, one.liveness.verdict.value


def test_its_steps_and_that_its_predictions_hold(played):
    steps, _, _ = played
    assert [type(step) for step in steps] == [
        CoordinatorStarted, GroupFormed, BouncePredicted, BounceDone, RemovalRefused, MemberStopped, MemberRemoved,
        RemovalDone, HistoryAsked,
    ]  # fmt: skip
    _, formed, predicted, bounced, refused, stopped, removed, after, asked = steps
    assert [member.group_instance_id for member in formed.snapshot.members] == list(INSTANCE_IDS)
    assert (predicted.static.typical.rebalances, bounced.lost_by_others) == (0, 0)
    assert predicted.dynamic.typical.rebalances > 0
    assert (bounced.check.holds, after.check.holds) == (True, True)
    assert after.check.actual.rebalances == 1
    assert [(result.target.id, result.result.value) for result in removed.results] == [(stopped.instance_id, "removed")]
    assert [verdict_of(refused), verdict_of(removed)] == [("refused", "alive"), ("removed", "stopped")]
    (gone,) = removed.results
    assert "commits in the group's log" in gone.liveness.why
    rebalance = asked.explanation.rebalance
    assert (rebalance.cause, rebalance.moved) == ("admin-removal", len(after.check.actual.moves))
    assert [(one.seat, one.what) for one in rebalance.who] == [("payments-3", "admin-removal")]
    assert [member.group_instance_id for member in after.snapshot.members] == list(INSTANCE_IDS[:2])


def test_the_demo_predicts_what_then_happens(played):
    _, _, outputs = played
    checks = {check["name"]: check for check in json.loads(outputs["json"])["data"]["checks"]}
    assert checks.keys() == {"bounce", "removal"}
    assert all(check["holds"] for check in checks.values())
    # A static member that is back in time costs nothing (KIP-345); its removal costs one rebalance.
    assert checks["bounce"]["actual"] == {"rebalances": 0, "moves": []}
    assert checks["removal"]["actual"]["rebalances"] == 1
    freed = [move for move in checks["removal"]["actual"]["moves"] if move["from"] == "payments-3"]
    assert sorted(move["partition"] for move in freed) == [8, 9, 10, 11]


@pytest.mark.long
def test_every_format_has_the_checks(played):
    _, _, outputs = played
    checks = json.loads(outputs["json"])["data"]["checks"]
    assert list(map(json.loads, outputs["ndjson"].splitlines())) == checks
    assert outputs["name"].splitlines() == ["bounce", "removal"]
    for name, mark in (("csv", ","), ("tsv", "\t")):
        rows = list(csv.DictReader(io.StringIO(outputs[name]), delimiter=mark))
        assert [row["name"] for row in rows] == ["bounce", "removal"]
        assert [row["holds"] for row in rows] == ["yes", "yes"]
        for row, check in zip(rows, checks, strict=True):
            assert int(row["actual_rebalances"]) == check["actual"]["rebalances"]
            assert bool(row["actual_moves"]) == bool(check["actual"]["moves"])
        assert "payments-3 -> " in rows[1]["actual_moves"]
    header, _, bounce, removal = outputs["markdown"].splitlines()
    assert [len(line.split(" | ")) for line in (header, bounce, removal)] == [6, 6, 6]
    assert all(outputs.values())


def test_the_demo_tells_a_story(played):
    _, text, _ = played
    assert "kgm describe payments" in text
    assert text.count("the prediction held") == 2
    assert "payments-1  refused  alive: it committed" in text
    assert "payments-3  removed  stopped: it committed nothing for" in text
    assert "$ kgm history explain payments\ngeneration 1 -> 2" in text
    assert "\x1b" not in text
