"""The causes that the history finds in a real log, against what was done to its clients."""

import pyarrow as pa
import pytest

from kgm.history.derive import derive
from tests.history.decode.test_real_logs import raw_log
from tests.history.truth.scores import Scores
from tests.history.truth.story import LATE_MS, Story, member_right, right
from tests.records.real_logs import partitions

#: What is done to a member, and what the history may call it; some shows only when the session has expired.
ALLOWED = {
    "close": {"leave", "returned", "away"},
    "sigkill": {"session-expiry", "returned"},
    "removed": {"admin-removal", "leave", "returned"},
    "start": {"joined", "returned"},
}


@pytest.fixture(scope="module")
def tables():
    return derive(pa.concat_tables([raw_log("plain", each) for each in partitions("plain")])).tables


@pytest.mark.slow
def test_causes_are_right_as_often_as_is_promised(tables):
    story, scores, previous = Story(), Scores(), {}
    rows = sorted(tables["gold_rebalance"].to_pylist(), key=lambda row: (row["partition"], row["offset"]))
    for row in rows:
        group = row["group_id"]
        scores.verdict(row["cause"], row["confidence"], right(story, row, previous.get(group)))
        previous[group] = row
    _recall(story, scores, rows + tables["gold_event"].to_pylist())
    print(scores.table())
    scores.check()
    assert sum(counts.total() for counts in scores.verdicts.values()) > 250
    certain = sum(counts.total() for (_, confidence), counts in scores.verdicts.items() if confidence == "certain")
    assert certain > 100


def _recall(story, scores, rows):
    verdicts = {}
    for row in rows:
        for who in row["who"]:
            life = story.of(row["group_id"], who)
            if life is not None:
                verdicts.setdefault((life.group, life.name), []).append((row["timestamp"], who["what"]))
    for life in story.lives.values():
        for ts, what in life.events:
            if what in ALLOWED:
                late = LATE_MS + 50_000
                seen = any(
                    0 <= at - ts <= late and each in ALLOWED[what]
                    for at, each in verdicts.get((life.group, life.name), ())
                )
                scores.recall(what, seen)


@pytest.mark.slow
def test_no_bounce_of_a_static_member_within_its_session_is_taken_for_a_rebalance(tables):
    """Every static bounce of the story within the session is an event of the group, and not a rebalance."""
    story = Story()
    absorbed = [row for row in tables["gold_event"].to_pylist() if row["event"] == "absorbed-bounce"]
    assert len(absorbed) > 50
    for row in absorbed:
        life = story.of(row["group_id"], row["who"][0])
        starts = [what for _, what in life.before(row["timestamp"]) if what == "start"]
        assert len(starts) > 1, row  # its process stopped before, or a second one took its instance id
    restarts = [row for row in tables["gold_restart"].to_pylist() if row["absorbed"]]
    assert len(restarts) == len(absorbed)
    assert all(row["max_ms"] <= row["session_timeout_ms"] for row in restarts if row["group_type"] == "classic")


@pytest.mark.slow
def test_the_ends_of_tenures_are_right_as_often_as_is_promised(tables):
    """How each member ended, unless another took over its identity."""
    story, scores = Story(), Scores()
    for row in tables["silver_seat"].to_pylist():
        if row["to_offset"] is not None:
            who = {"what": row["end_cause"], **{name: row[name] for name in ("seat", "member_id", "client_id")}}
            ended = {**row, "timestamp": row["to_timestamp"]}
            scores.verdict(row["end_cause"], row["end_confidence"], member_right(story, ended, who))
    print(scores.table())
    scores.check()
    assert sum(counts.total() for counts in scores.verdicts.values()) > 100
