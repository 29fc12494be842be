"""What became of a group, for every answer that a broker can give and everything that a later look can show."""

from __future__ import annotations

import pytest

from kgm.model.errors import BrokerError, ErrorCode
from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot
from kgm.operations.change.result import Result, exit_code
from kgm.operations.deletion.idleness import NOT_LOOKED
from kgm.operations.deletion.outcome import Later, outcome
from kgm.operations.deletion.send import GroupDeleter, OffsetDeleter
from kgm.operations.deletion.targets import DeletionTarget

REFUSAL = BrokerError("no", kafka_error=ErrorCode.NOT_COORDINATOR)


def group(committed):
    return GroupSnapshot(
        group_id="g", type="classic", state="Empty", offsets=(OffsetSnapshot("t", 0, committed, 9, 4, None, None),)
    )


#: Gone, there as it was, there with other commits, not seen.
AFTER = (Later(), Later(group=group(5)), Later(group=group(6)), Later(unseen="no answer in time"))
R = Result
TABLE = [
    # what the broker answered, what went wrong before -> gone, as it was, another, not seen
    (ErrorCode.NONE, None, (R.REMOVED, R.RETURNED, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.NONE, "lost", (R.REMOVED, R.RETURNED, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.GROUP_ID_NOT_FOUND, None, (R.ABSENT, R.FAILED, R.FAILED, R.UNKNOWN)),
    (ErrorCode.GROUP_ID_NOT_FOUND, "lost", (R.REMOVED, R.RETURNED, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.NON_EMPTY_GROUP, None, (R.REFUSED, R.REFUSED, R.REFUSED, R.REFUSED)),
    (ErrorCode.NON_EMPTY_GROUP, "lost", (R.UNKNOWN, R.REFUSED, R.UNKNOWN, R.UNKNOWN)),
    (ErrorCode.UNKNOWN_SERVER_ERROR, None, (R.UNKNOWN, R.FAILED, R.FAILED, R.UNKNOWN)),
    (999, None, (R.UNKNOWN, R.FAILED, R.FAILED, R.UNKNOWN)),
    (None, None, (R.ABSENT, R.FAILED, R.FAILED, R.FAILED)),
    (None, "lost", (R.REMOVED, R.UNKNOWN, R.UNKNOWN, R.UNKNOWN)),
    (None, "refused", (R.UNKNOWN, R.FAILED, R.FAILED, R.UNKNOWN)),
]
CASES = [(code, doubt, later, want) for code, doubt, row in TABLE for later, want in zip(AFTER, row, strict=True)]


def result_of(code, doubt, later, *, topic=None, sender=GroupDeleter):
    target = DeletionTarget(group_id="g", topic=topic, group=group(5), offsets={("t", 0): 5})
    sent = sender(None, "g")
    sent.codes = {} if code is None else {target: code}
    if doubt is not None:
        sent.in_doubt.add(target)
    if doubt == "lost":
        sent.lost.add(target)
    if doubt == "refused":
        sent.refusal = sent.last_error = REFUSAL
    return outcome(target, NOT_LOOKED, sent, later)


@pytest.mark.parametrize(("code", "doubt", "later", "wanted"), CASES)
def test_every_answer_and_everything_seen_later(code, doubt, later, wanted):
    one = result_of(code, doubt, later)
    assert one.result is wanted
    # What may have been carried out is never said to have changed nothing.
    if doubt == "lost":
        assert exit_code([one], ignore_missing=True) in (0, 7)
    assert (one.note is None) == (wanted is R.REMOVED and code is not None)
    assert one.note is None or code in (None, ErrorCode.NONE) or "answered that it was deleted" not in one.note


@pytest.mark.parametrize(
    ("code", "later", "wanted"),
    [
        (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, AFTER[1], R.REFUSED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, AFTER[1], R.REFUSED),
        (ErrorCode.NONE, AFTER[1], R.RETURNED),
        # The group stays, without offsets of the topic.
        (ErrorCode.NONE, Later(group=GroupSnapshot(group_id="g", type="classic", state="Empty")), R.REMOVED),
    ],
)
def test_offsets_of_a_topic(code, later, wanted):
    assert result_of(code, None, later, topic="t", sender=OffsetDeleter).result is wanted
