"""JoinGroup: behaviours B001-B037 of Apache Kafka 4.3.0's coordinator (GroupMetadataManagerTest, ClassicGroupTest).

Expected values are Kafka's."""

import itertools

import pytest

from kgm.coordinator.groups.classic_state import ClassicState, can_move
from kgm.model.errors import ErrorCode as E
from kgm.records.record import Record
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import REBALANCE_MS, SESSION_MS, Harness, subscription

TWO = {"range": subscription(), "roundrobin": subscription()}


@pytest.fixture
def h():
    return Harness()


def empty_record(record: Record):
    value = record.value
    return (value.generation, value.protocol_type, value.protocol, value.leader, value.members)


# -- creation and refusals


@rule("B001")
@pytest.mark.parametrize("how", [{"v": 3}, {"v": 4}, {"instance": "i", "v": 5}])
def test_unknown_group_and_no_member_id_creates_the_group(h, how):
    h.join(**how)
    assert [empty_record(record) for record in h.log] == [(0, "", None, None, [])]
    assert h.engine.group("g") is not None


@rule("B002")
@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.RECORD_LIST_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.INVALID_FETCH_SIZE, E.UNKNOWN_SERVER_ERROR),
        (E.LEADER_NOT_AVAILABLE, E.LEADER_NOT_AVAILABLE),
        (OSError("disk full"), E.NOT_COORDINATOR),
    ],
)
def test_the_error_of_a_new_group_that_cannot_be_appended(h, failure, told):
    h.fail_with = failure
    reply = h.got(h.join(v=3))
    assert (reply.error_code, reply.member_id, reply.generation_id) == (told, "", -1)
    assert h.engine.groups() == ()
    assert h.runtime.next_deadline() is None


@rule("B003")
@pytest.mark.parametrize("instance", [None, "i"])
def test_unknown_group_with_a_member_id(h, instance):
    reply = h.got(h.join("member", instance))
    assert (reply.error_code, reply.member_id) == (E.UNKNOWN_MEMBER_ID, "member")
    assert h.log == []


@rule("B004")
def test_unknown_member_in_an_existing_group(h):
    h.stable("a")
    reply = h.got(h.join("other"))
    assert (reply.error_code, reply.member_id) == (E.UNKNOWN_MEMBER_ID, "other")


@rule("B005")
@pytest.mark.parametrize("member", ["", "a-1"])
def test_dead_group(h, member):
    h.stable("a")
    h.take(h.runtime.unload(now=h.now))
    reply = h.got(h.join(member, "a"))
    assert (reply.error_code, reply.member_id) == (E.COORDINATOR_NOT_AVAILABLE, member)


@rule("B006")
@pytest.mark.parametrize(("session", "ok"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)])
def test_session_timeout_bounds(h, session, ok):
    reply = h.got(h.join(session=session, v=4))
    assert (reply.error_code == E.INVALID_SESSION_TIMEOUT) is not ok


@rule("B006")
def test_invalid_session_timeout_echoes_the_member_id(h):
    assert h.got(h.join("me", session=1)).member_id == "me"


@rule("B007")
def test_empty_group_id(h):
    assert h.got(h.join("m", group="")).error_code == E.INVALID_GROUP_ID
    assert h.got(h.sync("m", 1, group="")).error_code == E.INVALID_GROUP_ID
    assert h.heartbeat("m", 1, group="") == E.INVALID_GROUP_ID
    assert h.leave(("m", None), group="").error_code == E.INVALID_GROUP_ID
    assert h.delete_offset(group="") == (E.INVALID_GROUP_ID, None)


@rule("B008")
@pytest.mark.parametrize("how", [{"protocol_type": ""}, {"protocols": {}}])
def test_empty_protocol_type_or_list(h, how):
    assert h.got(h.join(v=3, **how)).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    # The refused join has created the group, as in Kafka.
    assert len(h.log) == 1
    assert h.state() == "Empty"


@rule("B009")
def test_other_protocol_type_or_no_common_protocol(h):
    h.stable("a")
    assert h.got(h.join(v=3, protocol_type="connect")).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert h.got(h.join(v=3, protocols={"sticky": b""})).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert h.state() == "Stable"


@rule("B010")
def test_a_known_member_joins_again_with_an_unsupported_protocol(h):
    (a,) = h.stable("a")
    for how in ({"protocols": {"sticky": b""}}, {"protocol_type": "connect"}):
        reply = h.got(h.join(a, "a", **how))
        assert (reply.error_code, reply.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, a)


@rule("B011")
@pytest.mark.parametrize(("v", "no_name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_protocol_type_in_success_only(h, v, no_name):
    ticket = h.join("", "i" if v >= 5 else None, v=v if v >= 5 else 3)
    (reply,) = h.until_answered(ticket)
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    refused = h.got(h.join("nobody", v=v))
    assert (refused.protocol_type, refused.protocol_name) == (None, no_name)


# -- dynamic and static newcomers


@rule("B012")
def test_dynamic_newcomers_from_v4_need_a_member_id(h):
    first = h.got(h.join(v=4, client_id="app"))
    assert (first.error_code, first.member_id, first.generation_id) == (E.MEMBER_ID_REQUIRED, "app-1", -1)
    (reply,) = h.until_answered(h.join("app-1", v=4))
    assert (reply.error_code, reply.member_id, reply.leader, reply.generation_id) == (E.NONE, "app-1", "app-1", 1)


@rule("B013")
@pytest.mark.parametrize("v", [0, 1, 2, 3])
def test_dynamic_newcomers_before_v4_join_at_once(h, v):
    assert h.until_answered(h.join(v=v))[0].error_code == E.NONE


@rule("B013")
def test_static_newcomers_never_need_a_member_id(h):
    (reply,) = h.until_answered(h.join("", "i", v=9))
    assert (reply.error_code, reply.member_id, reply.leader) == (E.NONE, "i-1", "i-1")
    assert [(m.member_id, m.group_instance_id) for m in reply.members] == [("i-1", "i")]


def test_null_client_id_gives_an_empty_prefix(h):
    assert h.got(h.join(v=4, client_id=None)).member_id == "-1"


@rule("B014")
@pytest.mark.parametrize("instance", [None, "extra"])
def test_group_max_size(instance):
    h = Harness(group_max_size=2)
    h.stable("a", "b")
    reply = h.got(h.join("", instance))
    assert (reply.error_code, reply.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert h.state() == "Stable"


@rule("B014")
def test_group_max_size_in_the_first_join_phase():
    h = Harness(group_max_size=2)
    tickets = [h.join("", f"i{n}") for n in range(3)]
    assert h.got(tickets[2]).error_code == E.GROUP_MAX_SIZE_REACHED
    assert [reply.error_code for reply in h.until_answered(*tickets[:2])] == [E.NONE, E.NONE]


@rule("B014")
def test_pending_ids_are_not_counted_but_are_dropped_when_refused():
    h = Harness(group_max_size=1)
    pending = [h.got(h.join(v=4)).member_id for _ in range(2)]
    h.until_answered(h.join(pending[0], v=4))
    assert h.got(h.join(pending[1], v=4)).error_code == E.GROUP_MAX_SIZE_REACHED
    assert h.engine.group("g").pending_member_ids == ()


@rule("B014")
def test_a_refused_member_is_removed_and_the_join_phase_lasts_until_its_timer():
    """Kafka does not look whether everybody who is left has joined."""
    h = Harness(group_max_size=4)
    a, b = h.stable("a", "b", rebalance=15_000)
    waiting = [h.join(a, "a", rebalance=15_000), *(h.join("", instance, rebalance=15_000) for instance in "cde")]
    assert h.got(h.join(b, "b", rebalance=15_000)).error_code == E.GROUP_MAX_SIZE_REACHED
    assert (b in h.member_ids(), h.state()) == (False, "PreparingRebalance")
    assert [h.got(ticket) for ticket in waiting] == [None] * 4
    h.sleep(15_000)
    assert [h.joined(ticket).generation_id for ticket in waiting] == [2] * 4


@rule("B015")
def test_known_members_join_again_at_the_limit():
    h = Harness(group_max_size=2)
    a, b = h.stable("a", "b")
    tickets = [h.join(a, "a"), h.join(b, "b")]
    assert [reply.error_code for reply in h.until_answered(*tickets)] == [E.NONE, E.NONE]


@rule("B015")
def test_the_last_members_to_join_again_are_dropped_when_over_the_limit():
    before = Harness()
    ids = before.stable(dynamic=4)
    h = before.reload(group_max_size=2)
    assert h.state() == "PreparingRebalance"
    tickets = [h.join(member) for member in ids]
    assert [h.got(ticket).error_code for ticket in tickets[2:]] == [E.GROUP_MAX_SIZE_REACHED] * 2
    h.until_answered(*tickets[:2])
    assert h.member_ids() == ids[:2]


@rule("B016")
def test_a_loaded_group_over_the_limit_rebalances():
    before = Harness()
    before.stable("a", "b", "c")
    assert before.reload(group_max_size=2).state() == "PreparingRebalance"
    assert before.reload(group_max_size=3).state() == "Stable"


# -- initial delay and timers of the join phase


@rule("B017")
def test_initial_delay_holds_the_first_generation():
    h = Harness(group_initial_rebalance_delay_ms=3_000)
    ticket = h.join("", "a")
    h.sleep(2_999)
    assert h.got(ticket) is None
    h.sleep(1)
    assert h.got(ticket).generation_id == 1


@rule("B017")
def test_no_initial_delay():
    h = Harness(group_initial_rebalance_delay_ms=0)
    ticket = h.join("", "a")
    h.sleep(0)
    assert h.got(ticket).generation_id == 1


@rule("B018")
def test_a_joiner_inside_the_window_extends_it():
    h = Harness(group_initial_rebalance_delay_ms=3_000)
    first = h.join("", "a")
    h.sleep(2_999)
    second = h.join("", "b")
    h.sleep(1)
    assert h.got(first) is None
    h.sleep(2_999)
    assert h.got(first) is None
    h.sleep(1)
    assert {h.got(first).generation_id, h.got(second).generation_id} == {1}


@rule("B019")
def test_the_extension_is_capped_by_the_rebalance_timeout():
    h = Harness(group_initial_rebalance_delay_ms=3_000)
    first = h.join("", "a", rebalance=7_000)
    for n in range(7):
        assert h.got(first) is None
        h.sleep(1_000)
        h.join("", f"b{n}", rebalance=7_000)
    assert h.got(first).generation_id == 1


@rule("B019")
def test_the_cap_is_that_of_the_members_known_at_the_start():
    h = Harness(group_initial_rebalance_delay_ms=3_000)
    first = h.join("", "a", rebalance=2_000)
    h.sleep(1_000)
    h.join("", "b", rebalance=60_000)
    h.sleep(2_000)
    assert h.got(first).generation_id == 1


@rule("B020")
def test_a_new_member_that_waits_is_expired_after_300_s(h):
    (a,) = h.stable("a", session=1_800_000, rebalance=1_800_000)
    newcomer = h.join(v=3, rebalance=1_800_000)
    h.sleep(299_999)
    assert h.got(newcomer) is None
    h.sleep(1)
    reply = h.got(newcomer)
    assert (reply.error_code, reply.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert h.member_ids() == [a]


@rule("B021")
def test_after_the_first_generation_the_session_timeout_applies(h):
    (reply,) = h.until_answered(h.join(v=3))
    h.sleep(SESSION_MS - 1)
    assert h.member_ids() == [reply.member_id]
    h.sleep(1)
    assert h.state() == "Empty"


@rule("B022")
def test_a_pending_id_expires_and_unblocks_the_join_phase(h):
    (a,) = h.stable("a")
    h.join(v=4, session=6_000)
    ticket = h.join(a, "a", rebalance=30_000)
    assert h.got(ticket) is None
    h.sleep(6_000)
    assert h.got(ticket).generation_id == 2


@rule("B022")
def test_a_pending_id_does_not_hold_the_join_phase_beyond_the_rebalance_timeout(h):
    (a,) = h.stable("a", session=60_000)
    h.join(v=4, session=60_000)
    ticket = h.join(a, "a", rebalance=30_000)
    h.sleep(30_000)
    assert h.got(ticket).generation_id == 2


@rule("B022")
def test_a_pending_id_of_an_empty_group_expires(h):
    h.join(v=4)
    h.sleep(SESSION_MS)
    assert (h.state(), h.engine.group("g").pending_member_ids) == ("Empty", ())


@rule("B023")
def test_the_join_phase_completes_when_the_pending_member_joins(h):
    (a,) = h.stable("a")
    pending = h.got(h.join(v=4)).member_id
    first = h.join(a, "a")
    second = h.join(pending, v=4)
    assert (h.got(first).generation_id, h.got(second).generation_id) == (2, 2)


@rule("B024")
def test_a_pending_id_with_an_instance_id_is_an_internal_error(h):
    pending = h.got(h.join(v=4)).member_id
    reply = h.got(h.join(pending, "i"))
    assert (reply.error_code, reply.member_id) == (E.UNKNOWN_SERVER_ERROR, "")


# -- rejoining


@rule("B025")
def test_an_unchanged_follower_of_a_stable_group(h):
    a, b = h.stable("a", "b")
    reply = h.got(h.join(b, "b", session=SESSION_MS + 1))
    assert (reply.error_code, reply.generation_id, reply.leader, reply.members) == (E.NONE, 1, a, [])
    assert h.state() == "Stable"
    # Its new timeout is not stored.
    assert h.engine.group("g").members[1].session_timeout_ms == SESSION_MS


@rule("B026")
def test_the_leader_of_a_stable_group_asks_for_a_rebalance(h):
    a, _ = h.stable("a", "b")
    assert h.got(h.join(a, "a")) is None
    assert h.state() == "PreparingRebalance"


@rule("B027")
def test_changed_metadata_in_stable_rebalances(h):
    _, b = h.stable("a", "b")
    assert h.got(h.join(b, "b", protocols={"range": subscription("other")})) is None
    assert h.state() == "PreparingRebalance"


@rule("B027")
def test_in_completing_the_same_metadata_gets_the_same_generation(h):
    a, b = h.completing("a", "b")
    leader, follower = h.got(h.join(a, "a")), h.got(h.join(b, "b"))
    assert [m.member_id for m in leader.members] == [a, b]
    assert (leader.generation_id, follower.generation_id, follower.members) == (1, 1, [])
    assert not leader.skip_assignment


@rule("B027")
def test_in_completing_changed_metadata_rebalances(h):
    a, b = h.completing("a", "b")
    parked = h.sync(b, 1, instance="b")
    assert h.got(h.join(a, "a", protocols=TWO)) is None
    assert h.got(parked).error_code == E.REBALANCE_IN_PROGRESS
    assert h.state() == "PreparingRebalance"


@rule("B028")
def test_a_known_member_of_an_empty_group(h):
    (a,) = h.stable("a")
    h.leave((a, "a"))
    assert h.state() == "Empty"
    assert h.got(h.join(a, "a")).error_code == E.UNKNOWN_MEMBER_ID


@rule("B029")
def test_only_dynamic_members_are_dropped_when_the_join_phase_times_out(h):
    a, b, _d1, _d2 = h.stable("a", "b", dynamic=2, session=1_800_000)
    ticket = h.join(a, "a", session=1_800_000)
    h.sleep(REBALANCE_MS)
    assert h.got(ticket).generation_id == 2
    assert h.member_ids() == [a, b]
    assert [m.member_id for m in h.got(ticket).members] == [a, b]


@rule("B030")
def test_the_join_phase_is_extended_when_no_member_has_joined(h):
    a, b = h.stable("a", "b", session=1_800_000)
    h.leave((a, "a"))
    for _ in range(3):
        h.sleep(REBALANCE_MS)
        assert (h.state(), h.generation(), h.member_ids()) == ("PreparingRebalance", 1, [b])
    assert h.engine.group("g").deadline_ms == h.now + REBALANCE_MS


@rule("B031")
def test_a_static_member_that_does_not_join_stays_and_holds_the_phase(h):
    a, b = h.stable("a", "b", session=1_800_000)
    ticket = h.join(a, "a", session=1_800_000)
    h.sleep(REBALANCE_MS - 1)
    assert h.got(ticket) is None
    h.sleep(1)
    assert h.got(ticket).generation_id == 2
    assert h.member_ids() == [a, b]


@rule("B032")
def test_a_static_leader_that_is_late_is_replaced_as_leader_and_stays(h):
    a, b = h.stable("a", "b", session=1_800_000)
    ticket = h.join(b, "b", session=1_800_000, protocols=TWO)
    h.sleep(REBALANCE_MS)
    reply = h.got(ticket)
    assert (reply.leader, [m.member_id for m in reply.members]) == (b, [a, b])


@rule("B033")
def test_a_static_follower_that_is_late_stays(h):
    a, b = h.stable("a", "b", session=1_800_000)
    ticket = h.join(a, "a", session=1_800_000)
    h.sleep(REBALANCE_MS)
    assert (h.got(ticket).leader, h.member_ids()) == (a, [a, b])


@rule("B034")
def test_a_rebalance_without_the_old_members_completes_when_they_time_out(h):
    h.stable(dynamic=2, session=30_000)
    newcomer = h.join("", "new", session=30_000, rebalance=REBALANCE_MS)
    h.sleep(29_999)
    assert h.got(newcomer) is None
    h.sleep(1)
    assert h.got(newcomer).generation_id == 2
    assert [m.group_instance_id for m in h.got(newcomer).members] == ["new"]


@rule("B035")
def test_the_generation_grows_by_one_per_rebalance(h):
    (a,) = h.stable("a")
    for generation in range(2, 6):
        assert h.got(h.join(a, "a")).generation_id == generation
        h.sync(a, generation, {a: b""})


def vote(*offers):
    h = Harness()
    replies = h.until_answered(*[h.join(v=3, protocols=dict.fromkeys(offer, b"")) for offer in offers])
    return replies[0].protocol_name if not replies[0].error_code else None


@rule("B036")
@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        (["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin"),
        (["range roundrobin", "roundrobin range", "range roundrobin"], "range"),
        # Only what all support counts, however many prefer something else.
        (["range roundrobin", "range roundrobin", "roundrobin foo"], "roundrobin"),
        (["roundrobin", "range roundrobin", "range roundrobin"], "roundrobin"),
        # A tie: the first in the hash map of the votes, whoever voted first.
        (["range roundrobin", "roundrobin range"], "range"),
        (["roundrobin range", "range roundrobin"], "range"),
        (["sticky roundrobin", "roundrobin sticky"], "sticky"),
    ],
)
def test_the_vote_for_a_protocol(offers, chosen):
    assert vote(*[offer.split() for offer in offers]) == chosen


LEGAL = {
    ("Empty", "PreparingRebalance"), ("Stable", "PreparingRebalance"), ("CompletingRebalance", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"), ("PreparingRebalance", "Empty"), ("CompletingRebalance", "Stable"),
    ("Empty", "Dead"), ("PreparingRebalance", "Dead"), ("CompletingRebalance", "Dead"), ("Stable", "Dead"),
    ("Dead", "Dead"),
}  # fmt: skip


@rule("B037")
@pytest.mark.parametrize(("before", "after"), list(itertools.product(ClassicState, repeat=2)))
def test_legal_transitions(before, after):
    assert can_move(before, after) is ((before.value, after.value) in LEGAL)


@rule("B037")
def test_an_illegal_transition_is_a_bug(h):
    h.stable("a")
    draft = h.engine._state.groups["g"].draft()
    with pytest.raises(AssertionError):
        draft.move_to(ClassicState.EMPTY, h.now)


# -- what Kafka leaves without an answer


def test_a_parked_join_that_its_own_repeat_replaces_is_told_to_rejoin(h):
    a, b = h.stable("a", "b")
    first = h.join(a, "a")
    second = h.join(a, "a")
    assert h.got(first).error_code == E.REBALANCE_IN_PROGRESS
    assert h.got(second) is None
    third = h.join(b, "b")
    assert (h.got(second).error_code, h.got(third).error_code) == (E.NONE, E.NONE)


def test_v0_has_no_rebalance_timeout_of_its_own(h):
    h.join(v=0, session=7_000, rebalance=1)
    assert h.engine.group("g").members[0].rebalance_timeout_ms == 7_000


def test_a_disjoint_protocol_list_of_a_lone_member_is_refused(h):
    """Kafka counts the joiner's own old entry among the members that must support a protocol."""
    (a,) = h.stable("a")
    assert h.got(h.join("", "a", protocols={"other": b""})).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert h.member_ids() == [a]
