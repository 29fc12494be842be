"""What became of a member, for every answer that a broker can give and everything that a later look can show."""

from __future__ import annotations

import pytest

from kgm.model.errors import BrokerError, ErrorCode, RefusedError, UnreachableError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.change.result import Result, exit_code
from kgm.operations.removal.guard import GuardReport
from kgm.operations.removal.outcome import nothing_changed, results_of_run
from kgm.operations.removal.plan import resolve
from kgm.operations.removal.request import RemovalRequest
from kgm.operations.removal.send import LeaveGroupSender

THERE = MemberSnapshot(member_id="a-1", group_instance_id="a")
NEW = MemberSnapshot(member_id="a-2", group_instance_id="a")
REFUSAL = BrokerError("no", kafka_error=ErrorCode.NOT_COORDINATOR)
GONE, STILL, BACK, UNSEEN = "gone", "still there", "back", "not seen"


def group(*members, kind="classic"):
    return GroupSnapshot(group_id="g", type=kind, state="Stable", members=members)


AFTER = {GONE: group(), STILL: group(THERE), BACK: group(NEW), UNSEEN: UnreachableError("no answer in time")}


def result_of(code, after, *, doubt=None, kind="classic"):
    """doubt: None, `lost`, or `refused`: what went wrong with an earlier request."""
    plan = resolve(RemovalRequest(group_id="g", instance_ids=("a",)), group(THERE, kind=kind))
    (target,) = plan.targets
    sent = LeaveGroupSender(None, "g", reason="why", evict=False)
    sent.codes = {} if code is None else {target: code}
    if doubt is not None:
        sent.in_doubt.add(target)
    if doubt == "lost":
        sent.lost.add(target)
    if doubt == "refused":
        sent.refusal = sent.last_error = REFUSAL
    (one,) = results_of_run(plan, sent, AFTER[after], GuardReport(liveness={}, seen=plan.member_ids))
    return one, nothing_changed([one], sent)


R = Result
TABLE = [
    # what the broker answered, what went wrong before, -> gone, still there, back, not seen
    (ErrorCode.NONE, None, (R.REMOVED, R.RETURNED, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.NONE, "lost", (R.REMOVED, R.RETURNED, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.UNKNOWN_MEMBER_ID, None, (R.ABSENT, R.FAILED, R.REFUSED, R.UNKNOWN)),
    (ErrorCode.UNKNOWN_MEMBER_ID, "lost", (R.REMOVED, R.FAILED, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.UNKNOWN_MEMBER_ID, "refused", (R.REMOVED, R.FAILED, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.FENCED_INSTANCE_ID, None, (R.UNKNOWN, R.REFUSED, R.REFUSED, R.UNKNOWN)),
    (ErrorCode.FENCED_INSTANCE_ID, "lost", (R.UNKNOWN, R.UNKNOWN, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.FENCED_INSTANCE_ID, "refused", (R.UNKNOWN, R.UNKNOWN, R.RETURNED, R.UNKNOWN)),
    (ErrorCode.REQUEST_TIMED_OUT, None, (R.UNKNOWN, R.FAILED, R.UNKNOWN, R.UNKNOWN)),
    (ErrorCode.UNKNOWN_SERVER_ERROR, None, (R.UNKNOWN, R.FAILED, R.UNKNOWN, R.UNKNOWN)),
    (999, None, (R.UNKNOWN, R.FAILED, R.UNKNOWN, R.UNKNOWN)),
    (None, None, (R.ABSENT, R.FAILED, R.FAILED, R.FAILED)),
    (None, "lost", (R.REMOVED, R.UNKNOWN, R.RETURNED, R.UNKNOWN)),
    (None, "refused", (R.UNKNOWN, R.FAILED, R.UNKNOWN, R.UNKNOWN)),
]
CASES = [
    (code, doubt, after, wanted)
    for code, doubt, row in TABLE
    for after, wanted in zip((GONE, STILL, BACK, UNSEEN), row, strict=True)
]


@pytest.mark.parametrize(("code", "doubt", "after", "wanted"), CASES)
def test_what_became_of_it(code, doubt, after, wanted):
    one, _ = result_of(code, after, doubt=doubt)
    assert one.result is wanted, one
    assert one.in_doubt == (doubt is not None)
    if wanted in (R.UNKNOWN, R.RETURNED, R.FAILED, R.REFUSED):
        assert one.note
    if after == BACK and wanted in (R.RETURNED, R.REFUSED):
        assert "member a-2" in one.note


def test_a_member_that_the_new_coordinator_still_has_did_not_come_back():
    """A coordinator answers before the rebalance has ended. Its successor has the members of the last rebalance, with
    their member ids; a static member that joins again gets a new one."""
    one, _ = result_of(ErrorCode.NONE, STILL)
    assert one.note == (
        "the broker answered that it was removed, but then the coordinator moved, and the new one still has it under the "
        "same member id; running the command again is safe"
    )
    assert one.is_kept
    assert not result_of(ErrorCode.NONE, BACK)[0].is_kept
    assert not result_of(ErrorCode.NONE, STILL, kind="consumer")[0].is_kept


@pytest.mark.parametrize(("code", "doubt"), [(code, doubt) for code, doubt, _ in TABLE])
def test_what_nobody_has_seen_is_not_said(code, doubt):
    """Without a description nothing is removed, absent or another's: the reason is told, and the exit code is not 0."""
    one, _ = result_of(code, UNSEEN, doubt=doubt)
    assert exit_code([one], ignore_missing=True) != 0
    assert "another one has" not in one.note
    if (code, doubt) != (None, None):  # then nothing was sent
        assert (one.result, exit_code([one], ignore_missing=True)) == (R.UNKNOWN, 7)
        assert "could not be described afterwards (no answer in time)" in one.note


@pytest.mark.parametrize(("code", "doubt", "after", "wanted"), CASES)
def test_nothing_changed_is_said_only_of_members_that_are_seen_again(code, doubt, after, wanted):
    one, error = result_of(code, after, doubt=doubt)
    assert (error is not None) == (code is None and doubt == "refused" and after == STILL)
    if after != STILL and doubt is not None:
        assert exit_code([one], ignore_missing=False) in (0, 7)


def test_a_member_for_which_a_guard_stopped_the_request_is_refused():
    """Brokers before Kafka 2.4 take one request for each member: those before it were removed, and it shows life."""
    plan = resolve(RemovalRequest(group_id="g", instance_ids=("a",)), group(THERE))
    sent = LeaveGroupSender(None, "g", reason="why", evict=False)
    sent.last_error = RefusedError("nothing was removed", facts=["a: alive: it committed"])
    (one,) = results_of_run(plan, sent, group(THERE), GuardReport(liveness={}))
    assert (one.result, one.note) == (R.REFUSED, "no request for it was sent: a: alive: it committed")


def test_members_of_consumer_groups_that_an_old_broker_does_not_find():
    one, _ = result_of(ErrorCode.UNKNOWN_MEMBER_ID, STILL, kind="consumer")
    assert one.result is R.REFUSED
    assert "KAFKA-18188" in one.note


def test_members_of_consumer_groups_that_may_have_rejoined_under_the_same_member_id():
    """The answer was lost, the second one says that it is no member, and it is there: KIP-848 members keep their id."""
    one, _ = result_of(ErrorCode.UNKNOWN_MEMBER_ID, STILL, doubt="lost", kind="consumer")
    assert one.result is R.UNKNOWN
    assert "may have rejoined" in one.note


def test_a_consumer_that_joined_again_has_its_old_member_id():
    one, _ = result_of(ErrorCode.NONE, STILL, kind="consumer")
    assert (one.result, one.note) == (R.RETURNED, "its process is alive: it joined again")


def test_a_retriable_error_to_the_end_is_unreachable_and_any_other_is_itself():
    _, error = result_of(None, STILL, doubt="refused")
    assert (error.exit_code, error.kafka_error) == (5, ErrorCode.NOT_COORDINATOR)
    assert any("nothing was changed" in fact for fact in error.facts)
