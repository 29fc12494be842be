"""Removal: who is meant, what is sent, and what is said when answers get lost."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from kgm.client import connect
from kgm.client.leave_group import MemberToRemove
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import AuthorizationError, ErrorCode, RefusedError, UnreachableError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.change.carrying_out import StaleVerdictError
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.result import Result, exit_code
from kgm.operations.removal import removal
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.plan import check_supported, resolve
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from tests.client.faults import (
    BlackHole,
    Delay,
    Edit,
    Garbage,
    Raw,
    ResetAfter,
    ResetBefore,
    Truncate,
    WrongCorrelation,
)
from tests.client.pace import short_budget_ms

pytestmark = pytest.mark.usefixtures("nobody_returns")

BUDGET_MS = 60_000
LEAVE = ApiKey.LEAVE_GROUP


# -- who is meant


def member(member_id, instance_id=None, assignment=None):
    return MemberSnapshot(member_id=member_id, group_instance_id=instance_id, assignment=assignment or {})


GROUP = GroupSnapshot(
    group_id="g", type="classic", state="Stable",
    members=(member("m-a", "a"), member("m-b", "b"), member("dyn-1"), member("dyn-2")),
)  # fmt: skip


def plan_of(group, **ids):
    return resolve(RemovalRequest(group_id="g", **{name: tuple(some) for name, some in ids.items()}), group)


def names(plan):
    return [(one.named, one.member.member_id if one.member else None) for one in plan.targets]


def static(name):
    return MemberToRemove(group_instance_id=name)


def dynamic(name):
    return MemberToRemove(member_id=name)


def test_ids_resolve_in_the_order_asked():
    plan = plan_of(GROUP, instance_ids=["b", "zz", "a"], member_ids=["dyn-2", "nobody"])
    assert names(plan) == [
        (static("b"), "m-b"),
        (static("zz"), None),
        (static("a"), "m-a"),
        (dynamic("dyn-2"), "dyn-2"),
        (dynamic("nobody"), None),
    ]
    assert (plan.repeated, plan.member_ids) == ((), {"m-b", "m-a", "dyn-2"})


def test_repeats_collapse_also_under_another_name():
    plan = plan_of(GROUP, instance_ids=["a", "a", "zz", "zz"], member_ids=["m-a", "zz"])
    assert names(plan) == [(static("a"), "m-a"), (static("zz"), None), (dynamic("zz"), None)]
    assert plan.repeated == ("a", "zz", "m-a")


def test_identities_and_patterns():
    plan = plan_of(GROUP, identities=["b", "dyn-1", "new"])
    assert names(plan) == [
        (static("b"), "m-b"),
        (dynamic("dyn-1"), "dyn-1"),
        (static("new"), None),
    ]
    assert [one.id for one in plan_of(GROUP, patterns=["dyn-*", "[ab]"]).targets] == [
        "dyn-1",
        "dyn-2",
        "a",
        "b",
    ]
    assert plan_of(GROUP, patterns=["A*"]).targets == ()
    assert plan_of(None, patterns=["*"], instance_ids=["a"]).targets[0].member is None


def test_a_static_member_may_be_meant_by_its_member_id():
    (target,) = plan_of(GROUP, member_ids=["m-a"]).targets
    assert (target.to_remove.group_instance_id, target.to_remove.member_id) == (None, "m-a")
    (target,) = plan_of(GROUP, instance_ids=["a"]).targets
    assert (target.to_remove.group_instance_id, target.to_remove.member_id) == ("a", "m-a")


@pytest.mark.parametrize(
    ("results", "plain", "ignoring"),
    [
        ([Result.REMOVED], 0, 0),
        ([Result.PLANNED, Result.PLANNED], 0, 0),
        ([Result.ABSENT, Result.ABSENT], 3, 0),
        ([Result.REMOVED, Result.ABSENT], 7, 0),
        ([Result.PLANNED, Result.ABSENT], 7, 0),
        ([Result.REFUSED, Result.ABSENT], 6, 6),
        ([Result.REMOVED, Result.REFUSED], 7, 7),
        ([Result.FAILED, Result.ABSENT], 1, 1),
        ([Result.FAILED, Result.REMOVED], 7, 7),
        ([Result.UNKNOWN], 7, 7),
        ([], 0, 0),
    ],
)
def test_exit_codes(results, plain, ignoring):
    (target,) = plan_of(None, instance_ids=["a"]).targets
    rows = [MemberResult(target=target, result=one) for one in results]
    assert exit_code(rows, ignore_missing=False) == plain
    assert exit_code(rows, ignore_missing=True) == ignoring


def test_a_refusal_after_a_lost_answer_is_not_nothing():
    (target,) = plan_of(None, instance_ids=["a"]).targets
    rows = [MemberResult(target=target, result=Result.REFUSED, in_doubt=True)]
    assert exit_code(rows, ignore_missing=False) == 7


# -- what is sent, and what is said


ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
QUICK = {"assume_stopped": True, "guard_window_ms": 0}


@pytest.fixture
def remove(proxy, group):
    """Prepare and execute: returns {id: result}."""
    opened = []

    def remove(*instance_ids, member_ids=(), timeout_ms=BUDGET_MS, meanwhile=lambda: None, allow_live=False):
        cluster = connect(proxy.bootstrap, timeout_ms=timeout_ms)
        opened.append(cluster)
        request = RemovalRequest(
            group_id=group, instance_ids=instance_ids, member_ids=tuple(member_ids), reason="why",
            allow_live=allow_live, **QUICK,
        )  # fmt: skip
        prepared = removal.prepare(cluster, request)
        meanwhile()
        report = removal.execute(cluster, prepared, operator=ALICE, audit=None)
        return {one.target.id: one for one in report.results}

    yield remove
    for cluster in opened:
        cluster.close()


@pytest.fixture
def left(server, group):
    """Who is in the group: identities."""

    def left():
        with connect(server.bootstrap, timeout_ms=BUDGET_MS) as cluster:
            return [one.identity for one in cluster.describe_group(group).members]

    return left


def outcomes(results):
    return {name: (str(one.result), ErrorCode(one.error).name) for name, one in results.items()}


@pytest.mark.slow
def test_one_request_for_the_whole_batch(remove, proxy, form, left):
    a, b, _c, d = form("a", "b", "c", None)
    results = remove("b", "zz", "a", member_ids=[d.member_id])
    assert list(results) == ["b", "zz", "a", d.member_id]
    assert outcomes(results) == {
        "b": ("removed", "NONE"),
        "zz": ("absent", "UNKNOWN_MEMBER_ID"),
        "a": ("removed", "NONE"),
        d.member_id: ("removed", "NONE"),
    }
    assert results["a"].partitions_freed == {"orders": [0]}
    assert results["zz"].partitions_freed == {}
    (request,) = proxy.requests(LEAVE)
    assert [(one.group_instance_id, one.member_id, one.reason) for one in request.members] == [
        ("b", b.member_id, "why (by alice@ops-1)"),
        ("a", a.member_id, "why (by alice@ops-1)"),
        (None, d.member_id, "why (by alice@ops-1)"),
    ]
    assert left() == ["c"]


@pytest.mark.slow
def test_nobody_found_sends_nothing(remove, proxy, form):
    form("a")
    assert outcomes(remove("zz")) == {"zz": ("absent", "UNKNOWN_MEMBER_ID")}
    assert proxy.requests(LEAVE) == []


def test_a_process_that_a_stable_group_does_not_have_is_gone(proxy, group, form):
    form("a")
    request = RemovalRequest(group_id=group, processes=("wr-9",), **QUICK)
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
        (error,) = removal.prepare(cluster, request).errors
    assert error.facts == ("the group is Stable; a process that it does not have is no member any more",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [ResetAfter(), Truncate(5), Garbage(), WrongCorrelation(), Raw(b"\x7f\xff\xff\xff"), Raw(b"\0\0\0\0")],
    ids=lambda fault: f"{fault}"[:30],
)
def test_a_lost_answer_is_not_a_failure(remove, proxy, form, left, fault):
    form("a", "b", "c")
    proxy.script(LEAVE, fault)
    results = remove("a", "b")
    assert outcomes(results) == {"a": ("removed", "NONE"), "b": ("removed", "NONE")}
    assert "lost" in results["a"].note
    assert len(proxy.requests(LEAVE)) == 1, "kgm saw that they are gone, so it did not send it again"
    assert left() == ["c"]


@pytest.mark.slow
def test_a_request_that_did_not_arrive_is_sent_again(remove, proxy, form, left):
    form("a", "b")
    proxy.script(LEAVE, ResetBefore(), ResetBefore())
    results = remove("a")
    assert outcomes(results) == {"a": ("removed", "NONE")}
    assert results["a"].note is None
    assert len(proxy.requests(LEAVE)) == 3
    assert left() == ["b"]


@pytest.mark.slow
@pytest.mark.parametrize("evict", [False, True])
def test_a_newcomer_is_never_evicted_by_the_second_request(remove, proxy, form, left, newcomer, evict):
    """The answer is lost, and before kgm asks again a new process takes the instance id."""
    form("a", "b")
    proxy.script(LEAVE, ResetAfter(then=lambda: newcomer("a", wait=False)))
    results = remove("a", allow_live=evict)
    # Where live members may be removed, it is sent again with the member id that is gone.
    assert outcomes(results) == {"a": ("returned", "FENCED_INSTANCE_ID" if evict else "NONE")}
    assert "rejoined as member a-" in results["a"].note
    assert left() == ["a", "b"]
    assert exit_code(list(results.values()), ignore_missing=False) == 7


@pytest.mark.slow
def test_a_member_that_restarted_since_it_was_seen_is_left_alone(remove, proxy, form, left, newcomer):
    form("a", "b")
    with pytest.raises(StaleVerdictError) as caught:
        remove("a", meanwhile=lambda: newcomer("a"))
    assert caught.value.exit_code == 6
    assert any("it came back as member a-" in fact for fact in caught.value.facts)
    assert proxy.requests(LEAVE) == []
    assert left() == ["a", "b"]


@pytest.mark.slow
def test_a_member_that_restarts_while_the_request_is_on_its_way_is_left_alone(remove, proxy, form, left, newcomer):
    """Its member id is sent too, so the broker answers FENCED_INSTANCE_ID."""
    form("a", "b")
    proxy.script(LEAVE, Delay(0, before=lambda: newcomer("a", wait=False)))
    results = remove("a")
    assert outcomes(results) == {"a": ("refused", "FENCED_INSTANCE_ID")}
    assert "rejoined as member a-" in results["a"].note
    assert left() == ["a", "b"]
    assert exit_code(list(results.values()), ignore_missing=False) == 6


@pytest.mark.slow
def test_unless_it_is_to_be_evicted(remove, form, left, newcomer):
    form("a", "b")
    results = remove("a", meanwhile=lambda: newcomer("a"), allow_live=True)
    assert outcomes(results) == {"a": ("removed", "NONE")}
    assert left() == ["b"]


@pytest.mark.slow
def test_a_member_that_left_by_itself_is_absent(remove, proxy, form, left, server, group):
    form("a", None)

    def leave():
        with connect(server.bootstrap, timeout_ms=BUDGET_MS) as other:
            everybody = RemovalRequest(group_id=group, patterns=("*",), **QUICK)
            removal.execute(other, removal.prepare(other, everybody), operator=ALICE, audit=None)

    (dynamic,) = [name for name in left() if name != "a"]
    results = remove("a", member_ids=[dynamic], meanwhile=leave)
    assert outcomes(results) == {"a": ("absent", "UNKNOWN_MEMBER_ID"), dynamic: ("absent", "UNKNOWN_MEMBER_ID")}
    assert "on its own" in results["a"].note


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
def test_a_coordinator_that_is_not_ready_is_asked_again(remove, proxy, form, left, code):
    form("a", "b")
    proxy.script(LEAVE, *[Edit(lambda _: LeaveGroupResponse(error_code=code), forward=False)] * 2)
    assert outcomes(remove("a")) == {"a": ("removed", "NONE")}
    assert len(proxy.requests(LEAVE)) == 3
    assert left() == ["b"]


@pytest.mark.slow
def test_a_coordinator_that_is_never_ready_is_unreachable_and_nothing_changed(remove, proxy, form, left):
    form("a", "b")
    proxy.always(LEAVE, Edit(lambda _: LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR), forward=False))
    with pytest.raises(UnreachableError) as caught:
        remove("a", timeout_ms=1_200)
    assert any("nothing was changed" in fact for fact in caught.value.facts)
    assert left() == ["a", "b"]


@pytest.mark.slow
def test_no_right_to_remove_names_the_acl(remove, proxy, form, left):
    form("a", "b")
    proxy.script(LEAVE, Edit(lambda _: LeaveGroupResponse(error_code=30), forward=False))
    with pytest.raises(AuthorizationError) as caught:
        remove("a")
    assert any("READ on Group" in fact for fact in caught.value.facts)
    assert left() == ["a", "b"]


def remove_with_a_look_afterwards(remove, proxy, group, form, fault):
    """Removes a, whose LeaveGroup meets the fault, with a budget that leaves time to describe the group afterwards."""
    results = {}
    for longer in (1, 3, 9):
        form("a", "b")
        budget_ms = longer * short_budget_ms(proxy.bootstrap, group)
        proxy.always(LEAVE, fault)
        results = remove("a", timeout_ms=budget_ms)
        if "could not be described afterwards" not in (results["a"].note or ""):
            break
    return results


@pytest.mark.slow
def test_silence_to_the_end_is_unknown_or_what_is_seen_afterwards(remove, proxy, group, form, left):
    """The request is swallowed for ever; afterwards the member is seen to be there still."""
    results = remove_with_a_look_afterwards(remove, proxy, group, form, BlackHole())
    assert outcomes(results) == {"a": ("unknown", "NONE")}
    assert "still in the group" in results["a"].note
    assert exit_code(list(results.values()), ignore_missing=True) == 7
    assert left() == ["a", "b"]


@pytest.mark.slow
def test_silence_after_the_deed_is_seen_through(remove, proxy, group, form, left):
    results = remove_with_a_look_afterwards(remove, proxy, group, form, BlackHole(forward=True))
    assert outcomes(results) == {"a": ("removed", "NONE")}
    assert "its answer was lost" in results["a"].note
    assert left() == ["b"]


@pytest.mark.slow
def test_silence_about_everything_is_unknown(remove, proxy, group, form):
    form("a", "b")
    budget_ms = short_budget_ms(proxy.bootstrap, group)

    def and_then():
        proxy.always(ApiKey.DESCRIBE_GROUPS, BlackHole())

    proxy.always(LEAVE, BlackHole(forward=True, then=and_then))
    results = remove("a", timeout_ms=budget_ms)
    assert outcomes(results) == {"a": ("unknown", "NONE")}
    assert "running the command again is safe" in results["a"].note


def keep(count):
    def change(message):
        message.members = message.members[:count]

    return Edit(change)


@pytest.mark.slow
def test_an_answer_that_leaves_a_member_out(remove, proxy, form, left):
    form("a", "b", "c")
    proxy.script(LEAVE, keep(1))
    results = remove("a", "b")
    assert outcomes(results) == {"a": ("removed", "NONE"), "b": ("removed", "NONE")}
    assert left() == ["c"]


@pytest.mark.slow
def test_an_answer_that_leaves_out_a_member_it_did_not_remove(remove, proxy, form):
    form("a", "b")
    proxy.script(LEAVE, Edit(lambda _: LeaveGroupResponse(), forward=False))
    results = remove("a")
    assert outcomes(results) == {"a": ("failed", "NONE")}
    assert "does not mention it" in results["a"].note
    # The look has decided: nothing is left to doubt, so the run has failed, and its outcome is known.
    assert exit_code(list(results.values()), ignore_missing=False) == 1


@pytest.mark.slow
def test_an_answer_in_another_order_with_strangers_and_repeats(remove, proxy, form, left):
    form("a", "b", "c")

    def muddle(message):
        extra = MemberResponse(member_id="x", group_instance_id="c", error_code=0)
        message.members = [extra, *reversed(message.members), *message.members, extra]
        message.members[-2].error_code = 82

    proxy.script(LEAVE, Edit(muddle))
    results = remove("a", "zz", "b")
    assert list(results) == ["a", "zz", "b"]
    assert left() == ["c"]
    assert "c" not in results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "result", "exit_with"),
    [(25, "failed", 1), (82, "refused", 6), (26, "failed", 1), (16, "failed", 1), (999, "failed", 1)],
)
def test_error_codes_of_one_member(remove, proxy, form, code, result, exit_with):
    form("a", "b")

    def refuse(_):
        request = proxy.requests(LEAVE)[-1].members[0]
        row = MemberResponse(member_id=request.member_id, group_instance_id=request.group_instance_id, error_code=code)
        return LeaveGroupResponse(members=[row])

    proxy.script(LEAVE, Edit(refuse, forward=False))
    results = remove("a")
    assert (results["a"].result, results["a"].error) == (result, code)
    assert exit_code(list(results.values()), ignore_missing=False) == exit_with


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_brokers_remove_dynamic_members_one_by_one(remove, proxy, form, left, version):
    a, b, c = form(None, None, None)
    proxy.ranges = {LEAVE: (0, version)}
    proxy.script(LEAVE, ResetAfter())
    results = remove(member_ids=[a.member_id, b.member_id, "nobody"])
    assert [str(one.result) for one in results.values()] == ["removed", "removed", "absent"]
    assert [one.member_id for one in proxy.requests(LEAVE)] == [a.member_id, b.member_id]
    assert left() == [c.member_id]


@pytest.mark.slow
def test_old_brokers_cannot_remove_static_members(remove, proxy, form, left):
    a, b = form("a", None)
    proxy.ranges = {LEAVE: (0, 2)}
    with pytest.raises(RefusedError, match="cannot remove static members: a") as caught:
        remove("a", member_ids=[b.member_id])
    assert caught.value.exit_code == 6
    assert any("v3 (Kafka 2.4)" in fact for fact in caught.value.facts)
    with pytest.raises(RefusedError):
        remove("not-there")
    with pytest.raises(RefusedError):
        remove(member_ids=[a.member_id])
    assert proxy.requests(LEAVE) == []
    assert sorted(left()) == sorted(["a", b.member_id])


@pytest.mark.slow
@pytest.mark.parametrize("version", [3, 4])
def test_a_reason_is_left_out_where_it_cannot_be_said(remove, proxy, form, left, version):
    form("a", "b")
    proxy.ranges = {LEAVE: (0, version)}
    assert outcomes(remove("a")) == {"a": ("removed", "NONE")}
    assert left() == ["b"]


def test_share_groups_are_refused(proxy):
    shared = GroupSnapshot(group_id="g", type="share", state="Stable", members=(member("m"),))
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster, pytest.raises(RefusedError, match="share"):
        check_supported(cluster, plan_of(shared, member_ids=["m"]))


@pytest.mark.parametrize(
    ("versions", "is_refused"),
    [(["3.9+new"], True), (["3.7+new", "3.8+new"], True), (["3.9+new", "4.0"], False), (["4.0"], False), ([], False)],
)
def test_brokers_before_4_0_are_not_asked_to_remove_members_of_consumer_groups(proxy, versions, is_refused):
    """They answer UNKNOWN_MEMBER_ID of a member that they describe (KAFKA-18188). A dry run says so too."""
    group = replace(GROUP, type="consumer", kafka_versions=tuple(map(BrokerVersion.parse, versions)))
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
        check_supported(cluster, plan_of(group, instance_ids=["nobody"]))
        with pytest.raises(RefusedError, match="KAFKA-18188") if is_refused else nullcontext():
            check_supported(cluster, plan_of(group, instance_ids=["a"]))


def test_a_blank_id_is_an_id_and_an_empty_one_never_means_all():
    assert RemovalRequest(group_id=" ", instance_ids=(" ",)).instance_ids == (" ",)
    for asked in ({"group_id": ""}, {"instance_ids": ("",)}, {"patterns": (" ",)}, {"processes": (" ",)}):
        with pytest.raises(UsageError):
            RemovalRequest(**{"group_id": "g", "instance_ids": ("a",), **asked})
