"""The causes of a real broker's history, against what was done to the groups and what the broker's own log says."""

from collections import defaultdict

import pytest

from kgm.history.causes.broker_log import BROKER_LOG, explained, parse
from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.derive import derive
from kgm.history.row_tables import read_rows
from kgm.history.rows import RebalanceRow
from tests.history.truth.driven import SESSION_MS, Broker, drive_all
from tests.history.truth.grading import grades
from tests.history.truth.scores import LEAST, Scores
from tests.selection import first_seed

pytestmark = [pytest.mark.long, pytest.mark.scenes, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=[first_seed()])
def run(request):
    """(tables, steps, lines of the broker's log)."""
    with Broker() as broker:
        drive_all(broker, seed=request.param)
        return (
            derive(broker.raw(), session_of_group=GivenSessions(default_ms=SESSION_MS)).tables,
            broker.steps,
            broker.log,
        )


def rebalances(tables):
    return sorted(tables["gold_rebalance"].to_pylist(), key=lambda row: (row["partition"], row["offset"]))


def test_causes_are_what_was_done(run):
    tables, steps, _ = run
    scores, by_group = Scores(), defaultdict(list)
    rows = rebalances(tables) + [row | {"cause": row["event"], "also": []} for row in tables["gold_event"].to_pylist()]
    for row in rows:
        by_group[row["group_id"]].append(row)
    for step in steps:
        within = [row for row in by_group[step.group] if step.since <= row["timestamp"] <= step.until]
        causes = {cause for row in within for cause in (row["cause"], *row["also"])}
        if step.expected is not None:
            scores.recall(step.expected, bool(causes & step.allowed))
        for row in within:
            if row["cause"] not in {"away", "converted"}:
                scores.verdict(row["cause"], row["confidence"], row["cause"] in step.allowed, about=(step, row))
    print(scores.table())
    scores.check()
    assert all(row["complete"] for row in rows)
    missed = {kind: counts for kind, counts in scores.done.items() if counts[False]}
    assert sum(counts[False] for counts in missed.values()) <= 0.1 * len(steps), missed


def test_the_broker_says_the_same(run):
    tables, _, lines = run
    rows = read_rows(RebalanceRow, tables["gold_rebalance"])
    rows.sort(key=lambda row: (row.partition, row.offset))
    reasons = list(parse(lines))
    assert len({(each.group_id, each.generation) for each in reasons}) > 30
    graded = grades(rows, reasons)
    for grade in graded:
        print(grade)
        if grade.confidence in LEAST:
            total = grade.right + grade.also + grade.wrong
            assert (grade.right + grade.also) / total >= LEAST[grade.confidence], graded
    results = explained(rows, reasons)
    assert sum(row.source == BROKER_LOG for row in results) > 0.9 * len(results)
    by_cause = {row.cause for row in results if row.source == BROKER_LOG}
    assert by_cause >= {"join", "leave", "session-expiry", "admin-removal", "bounce", "all-gone", "max-poll"}
    assert {row.confidence for row in results if row.source == BROKER_LOG} == {"certain"}


def test_a_coordinator_that_moved_is_noticed(run):
    tables, steps, _ = run
    rows = [row for row in rebalances(tables) if row["group_id"] == _last(steps, "moved")]
    assert rows[-1]["cause"] == "join"
    assert rows[-1]["leader_epoch"] > rows[0]["leader_epoch"]
    assert any("coordinator" in line for line in rows[-1]["evidence"])


def _last(steps, group):
    """The group's name in its last attempt."""
    return next(step.group for step in reversed(steps) if step.group.startswith(group))
