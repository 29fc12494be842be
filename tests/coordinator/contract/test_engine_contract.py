"""The contract of engine and runtime: outcomes, alarms, forks, appends that fail, settings, refusals, views."""

import pytest

from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import (
    CancelTimer,
    Millis,
    Outcome,
    Reply,
    Request,
    SetTimer,
    Ticket,
    TimerKey,
    TimerKind,
)
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import AppendError, Runtime
from kgm.model.errors import ErrorCode as E
from kgm.model.errors import UsageError
from kgm.protocol import codec
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.fetch_request import FetchRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.record import Record
from tests.coordinator.harness import SESSION_MS, Harness, Ids, subscription

NOW = Millis(5_000)


@pytest.fixture
def h():
    return Harness()


def engine(**how):
    return Coordinator(new_member_id=Ids(), **how)


def static_join(instance="a", group="g"):
    message = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription())],
    )
    return Request(message=message, version=9, client_id="c", client_host="/h")


# -- outcomes


def test_an_outcome_with_records_is_a_proposal():
    machine = engine()
    outcome = machine.handle(static_join(), ticket=Ticket(1), now=NOW)
    assert [type(record.key) for record in outcome.records] == [GroupMetadataKey]
    assert outcome.timers == (
        SetTimer(TimerKey(TimerKind.SESSION, "g", "a-1"), Millis(305_000)),
        SetTimer(TimerKey(TimerKind.JOIN, "g"), Millis(8_000)),
    )
    assert outcome.replies == ()
    assert (machine.groups(), dict(machine.deadlines)) == ((), {})
    machine.replay(outcome.records[0])
    assert machine.group("g").state == "PreparingRebalance"
    assert len(machine.deadlines) == 2


def test_an_outcome_without_records_is_in_effect():
    machine = engine()
    outcome = machine.handle(Request(message=HeartbeatRequest(group_id="g"), version=4), ticket=Ticket(3), now=NOW)
    assert (outcome.records, outcome.timers) == ((), ())
    assert [(reply.ticket, reply.message.error_code) for reply in outcome.replies] == [(3, E.UNKNOWN_MEMBER_ID)]


def test_the_next_event_must_wait_until_the_records_are_replayed():
    machine = engine()
    machine.handle(static_join(), ticket=Ticket(1), now=NOW)
    with pytest.raises(AssertionError):
        machine.handle(static_join("b"), ticket=Ticket(2), now=NOW)
    with pytest.raises(AssertionError):
        machine.fork()
    with pytest.raises(AssertionError):
        machine.replay(Record(GroupMetadataKey(group="other"), None))


def test_abort_is_for_what_is_in_flight():
    machine = engine()
    with pytest.raises(AssertionError):
        machine.abort(E.NOT_ENOUGH_REPLICAS, now=NOW)


def test_abort_is_not_for_what_is_partly_in_the_log(h):
    h.commit(partition=0)
    h.commit(partition=1)
    outcome = h.engine.handle(
        Request(message=DeleteGroupsRequest(groups_names=["g"]), version=2), ticket=Ticket(99), now=h.now
    )
    h.engine.replay(outcome.records[0])
    with pytest.raises(AssertionError):
        h.engine.abort(E.NOT_ENOUGH_REPLICAS, now=h.now)


def test_only_live_timers_are_cancelled(h):
    (a,) = h.stable("a")
    outcome = h.engine.handle(
        Request(message=SyncGroupRequest(group_id="g", generation_id=1, member_id=a), version=3),
        ticket=Ticket(99),
        now=h.now,
    )
    assert outcome.timers == ()


def test_a_join_that_was_sent_away_hears_so_even_if_the_new_group_is_not_logged(h):
    """What Kafka tells a newcomer before the append, it does not take back."""
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    assert h.got(h.join(v=4)).error_code == E.MEMBER_ID_REQUIRED
    assert h.got(h.join(v=3, protocols={})).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert (h.engine.groups(), h.runtime.next_deadline()) == ((), None)


def test_a_commit_that_is_not_logged_still_shows_a_live_member(h):
    (a,) = h.stable("a")
    h.sleep(SESSION_MS - 1)
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    assert h.commit(a, 1, "a") == E.COORDINATOR_NOT_AVAILABLE
    assert h.engine.group("g").members[0].session_deadline_ms == h.now + SESSION_MS


# -- alarms


def test_alarms_that_were_never_set_or_moved_are_ignored(h):
    (a,) = h.stable("a")
    key = TimerKey(TimerKind.SESSION, "g", a)
    early = h.engine.deadline(key)
    h.sleep(1_000)
    h.heartbeat(a, 1)
    assert h.engine.expire(key, now=early) == Outcome()
    assert h.engine.expire(TimerKey(TimerKind.SYNC, "g"), now=h.now) == Outcome()
    assert h.engine.expire(TimerKey(TimerKind.JOIN, "nowhere"), now=h.now) == Outcome()
    assert h.state() == "Stable"


def test_an_alarm_that_went_off_is_gone(h):
    (a,) = h.stable("a")
    key = TimerKey(TimerKind.SESSION, "g", a)
    deadline = h.engine.deadline(key)
    outcome = h.engine.expire(key, now=deadline)
    assert CancelTimer(key) in outcome.timers
    for record in outcome.records:
        h.engine.replay(record)
    assert h.engine.deadline(key) is None


def test_timers_fire_by_deadline_then_in_the_order_in_which_they_were_set(h):
    ids = h.stable("a", "b", "c")
    h.heartbeat(ids[0], 1)
    h.heartbeat(ids[2], 1)
    h.heartbeat(ids[1], 1)
    order = []
    original = h.engine.expire

    def spy(key, *, now):
        order.append((key.member_id, now))
        return original(key, now=now)

    h.engine.expire = spy
    at = h.now + SESSION_MS
    h.sleep(SESSION_MS + 5_000)
    assert order == [(ids[0], at), (ids[2], at), (ids[1], at)]


def test_a_request_comes_after_the_timers_that_are_due(h):
    (a,) = h.stable("a")
    h.now = Millis(h.now + SESSION_MS)
    assert h.heartbeat(a, 1) == E.UNKNOWN_MEMBER_ID


def test_a_real_clock_has_nothing_to_catch_up_on(h):
    """A phase that nobody joins is tried again each millisecond, for half an hour. After five minutes without the CPU
    that is no reason to do nothing else for as long."""
    h.stable("a", "b", session=1_800_000, v=9)
    _, b = (h.got(h.join("", name, session=1_800_000, rebalance=1, v=9)).member_id for name in "ab")
    h.leave((b, "b"))
    fired, expire = [], h.engine.expire

    def spy(key, *, now):
        fired.append(now)
        return expire(key, now=now)

    h.engine.expire = spy
    later = Millis(h.now + 300_000)
    runtime = Runtime(h.engine, has_real_clock=True)
    runtime.advance(later)
    assert fired == [later]
    assert (h.state(), runtime.next_deadline()) == ("PreparingRebalance", later + 1)


def test_a_moved_timer_does_not_fire_at_its_old_deadline(h):
    (a,) = h.stable("a")
    timer = h.runtime.next_timer()
    h.sleep(1_000)
    h.heartbeat(a, 1)
    assert h.runtime.fire(timer) == ()
    assert h.state() == "Stable"


def test_a_timer_that_was_cancelled_behind_the_runtime_is_passed_over(h):
    h.stable("a")
    h.engine._deadlines.clear()
    assert h.runtime.next_deadline() is None


def test_superseded_timers_do_not_pile_up(h):
    ids = h.stable("a", "b")
    for n in range(1_000):
        h.sleep(1)
        h.heartbeat(ids[n % 2], 1)
    assert len(h.runtime._heap) <= 4 * 2 + 64 + 1
    h.sleep(SESSION_MS - 2)
    assert h.state() == "Stable"
    h.sleep(2)
    assert h.state() == "Empty"


def test_cancelled_timers_do_not_pile_up(h):
    (member,) = h.stable("a")
    for _ in range(200):
        pending = h.got(h.join("", v=4)).member_id
        h.leave((pending, None))
    assert len(h.engine.deadlines) == 2
    assert len(h.runtime._heap) <= 4 * 2 + 64 + 1
    h.sleep(SESSION_MS - 1)
    assert h.member_ids() == [member]
    h.sleep(1)
    assert h.state() == "Empty"


def test_it_is_quiet_until_the_next_timer_and_may_be_so_for_longer(h):
    assert h.runtime.quiet_until() > h.now + 1_000_000
    (member,) = h.stable("a")
    deadline = h.runtime.next_deadline()
    assert h.runtime.quiet_until() == deadline
    h.sleep(1_000)
    h.heartbeat(member, 1)
    # A timer that was moved is asked for at its old deadline, too: no promise is given then.
    assert h.runtime.next_deadline() == deadline + 1_000


def test_timer_keys_are_readable():
    assert str(TimerKey(TimerKind.SESSION, "g", "m")) == "session:g:m"
    assert str(TimerKey(TimerKind.OFFSET_EXPIRATION)) == "offset-expiration"


# -- runtime and fork


def test_a_runtime_without_a_log_keeps_nothing():
    runtime = Runtime(engine())
    assert runtime.handle(static_join(), ticket=Ticket(1), now=NOW) == ()
    (reply,) = runtime.advance(Millis(NOW + 3_000))
    assert (reply.ticket, reply.message.generation_id) == (1, 1)


def test_a_runtime_takes_over_the_timers_of_an_engine_in_use(h):
    (_a,) = h.stable("a")
    other = Runtime(h.engine)
    other.advance(Millis(h.now + SESSION_MS))
    assert h.state() == "Empty"


def test_a_fork_answers_what_if(h):
    a, b = h.stable("a", "b")
    h.sleep(2_000)
    waiting = h.join("", "c")
    twin = h.runtime.fork()
    replies = twin.advance(Millis(h.now + SESSION_MS))
    assert [(reply.ticket, reply.message.generation_id) for reply in replies] == [(waiting, 2)]
    assert [m.group_instance_id for m in twin.engine.group("g").members] == ["c"]
    assert h.member_ids()[:2] == [a, b]
    assert h.got(waiting) is None
    logged = len(h.log)
    twin.advance(Millis(h.now + 1_000_000))
    assert (twin.engine.group("g").state, h.state(), len(h.log)) == ("Empty", "PreparingRebalance", logged)


def test_a_fork_does_not_notice_who_joins_and_syncs_later(h):
    a, b = h.stable("a", "b")
    waiting = h.join("", "c")
    twin = h.runtime.fork()
    h.join(a, "a")
    h.join(b, "b")
    leader = h.got(waiting).leader
    assert (h.state(), twin.engine.group("g").state) == ("CompletingRebalance", "PreparingRebalance")
    twin = h.runtime.fork()
    follower = next(member for member in h.member_ids() if member != leader)
    parked = h.sync(follower, h.generation())
    h.sync(leader, h.generation(), dict.fromkeys(h.member_ids(), b"x"))
    assert h.got(parked).assignment == b"x"
    assert (h.state(), twin.engine.group("g").state) == ("Stable", "CompletingRebalance")
    replies = twin.handle(
        Request(SyncGroupRequest(group_id="g", generation_id=h.generation(), member_id=leader), 3), ticket=Ticket(99),
        now=h.now,
    )  # fmt: skip
    assert sorted(reply.ticket for reply in replies) == [99]  # nobody else waits for the leader in this fork


def test_a_fork_has_its_own_offsets(h):
    h.commit(offset=1)
    twin = h.runtime.fork()
    commit = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=2)]
            )
        ],
    )
    twin.handle(Request(message=commit, version=8), ticket=Ticket(99), now=h.now)
    assert [e.offsets.of("g")["orders", 0].offset for e in (h.engine, twin.engine)] == [1, 2]


def test_other_failures_of_append_are_bugs(h):
    h.fail_with = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        h.join("", "a")


def test_append_error_says_why():
    error = AppendError(E.NOT_ENOUGH_REPLICAS)
    assert (error.error, error.json_code) == (E.NOT_ENOUGH_REPLICAS, "NOT_ENOUGH_REPLICAS")


# -- records


def test_foreign_records_are_skipped():
    machine = engine()
    machine.replay(Record(ConsumerGroupMetadataKey(group_id="new"), ConsumerGroupMetadataValue(epoch=3)))
    machine.replay(Record(ConsumerGroupMetadataKey(group_id="new"), None))
    assert machine.groups() == ()


def test_tombstones_for_what_is_not_there():
    machine = engine()
    machine.replay(Record(GroupMetadataKey(group="g"), None))
    machine.replay(Record(OffsetCommitKey(group="g", topic="t", partition=0), None))
    assert machine.groups() == ()


def test_one_offset_of_many_is_removed():
    machine = engine()
    for partition in (0, 1):
        key = LegacyOffsetCommitKey(group="old", topic="t", partition=partition)
        machine.replay(Record(key, LegacyOffsetCommitValue(offset=7, metadata="m", commit_timestamp=3)))
    machine.replay(Record(LegacyOffsetCommitKey(group="old", topic="t", partition=1), None))
    assert {at: row.offset for at, row in machine.offsets.of("old").items()} == {("t", 0): 7}
    assert machine.group("old").state == "Empty"
    machine.replay(Record(OffsetCommitKey(group="old", topic="t", partition=1), None))
    machine.replay(Record(OffsetCommitKey(group="old", topic="t", partition=0), None))
    assert machine.offsets.of("old") == {}


def test_old_group_records_have_no_rebalance_timeout_and_no_timestamp():
    machine = engine()
    member = MemberMetadata(member_id="m", session_timeout=7_000, subscription=subscription(), assignment=b"x")
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member])
    machine.replay(Record(GroupMetadataKey(group="g"), value))
    group = machine.group("g")
    assert (group.state, group.state_timestamp_ms, group.leader) == ("Stable", None, "m")
    assert group.members[0].rebalance_timeout_ms == 7_000


def test_a_group_record_without_leader_or_protocol_is_read_as_far_as_it_goes():
    machine = engine()
    member = MemberMetadata(member_id="m", session_timeout=7_000)
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol=None, leader=None, members=[member])
    machine.replay(Record(GroupMetadataKey(group="g"), value))
    assert machine.group("g").leader == "m"
    assert machine._state.groups["g"].subscribed_topics is None


def test_a_later_record_of_a_group_takes_the_place_of_an_earlier_one(h):
    h.stable("a", "b")
    h.leave(("", "b"))
    for _ in range(2):
        h.join(h.member_ids()[0], "a")
    assert [m.group_instance_id for m in h.reload().engine.group("g").members] == ["a", "b"]


# -- views


def test_views_tell_who_has_joined_and_synced(h):
    a, b = h.stable("a", "b")
    assert [(m.joined, m.synced) for m in h.engine.group("g").members] == [(False, True), (False, True)]
    h.join(a, "a")
    view = h.engine.group("g")
    assert [(m.joined, m.synced) for m in view.members] == [(True, False), (False, False)]
    assert (view.deadline_ms, view.protocol) == (h.now + 60_000, "range")
    h.join(b, "b")
    h.sync(b, 2)
    assert [(m.joined, m.synced) for m in h.engine.group("g").members] == [(False, False), (False, True)]
    assert h.engine.group("nobody") is None


def test_views_before_a_protocol_is_chosen(h):
    h.join("", "a", protocols={"sticky": b"first", "range": b"second"})
    (member,) = h.engine.group("g").members
    assert (member.subscription, member.protocols) == (b"first", ("sticky", "range"))


# -- settings


def test_settings_have_kafkas_defaults_and_names():
    assert BrokerSettings.from_overrides({}) == BrokerSettings()
    changed = BrokerSettings.from_overrides({"group.initial.rebalance.delay.ms": "0", "group.max.size": 5})
    assert (changed.group_initial_rebalance_delay_ms, changed.group_max_size) == (0, 5)
    assert changed.group_max_session_timeout_ms == 1_800_000


@pytest.mark.parametrize(
    "overrides",
    [{"group.max.sizes": "1"}, {"group.max.size": "many"}, {"group.max.size": "0"}, {"group.max.size": str(2**31)},
     {"group.initial.rebalance.delay.ms": "-1"}],
)  # fmt: skip
def test_settings_that_are_not_understood(overrides):
    with pytest.raises(UsageError) as error:
        BrokerSettings.from_overrides(overrides)
    assert next(iter(overrides)) in error.value.message


# -- refusals


@pytest.mark.parametrize(
    "message",
    [
        JoinGroupRequest(), SyncGroupRequest(), HeartbeatRequest(), LeaveGroupRequest(), ListGroupsRequest(),
        DescribeGroupsRequest(groups=["g"]), DeleteGroupsRequest(groups_names=["g"]), OffsetDeleteRequest(),
        ConsumerGroupDescribeRequest(group_ids=["g"]), ConsumerGroupHeartbeatRequest(),
        OffsetCommitRequest(topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition()])]),
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]),
        OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_every_response_has_an_error_form_that_can_be_written(message):
    written = 0
    for version in range(message.MIN_VERSION, message.MAX_VERSION + 1):
        if isinstance(message, OffsetFetchRequest) and (version >= 8) != bool(message.groups):
            continue
        reply = refusal(Request(message=message, version=version), E.COORDINATOR_LOAD_IN_PROGRESS)
        data = codec.encode(reply, version)
        assert "error_code=14" in repr(codec.decode(type(reply), data, version))
        written += 1
    assert written > 0


def test_a_refusal_needs_a_request_that_is_ours():
    with pytest.raises(TypeError):
        refusal(Request(message=FetchRequest(), version=4), E.NOT_COORDINATOR)


def test_replies_are_values():
    assert Reply(Ticket(1), HeartbeatRequest()) == Reply(Ticket(1), HeartbeatRequest())
