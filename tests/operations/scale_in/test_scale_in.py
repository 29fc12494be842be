"""The members that go, what becomes of their partitions, and the commands."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.model.errors import RefusedError, UsageError
from kgm.model.snapshot import TopicSnapshot
from kgm.model.work import MemberWork
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.units import UnitKind
from kgm.operations.kubernetes.pods import ListedPods, Pod
from kgm.operations.scale_in import scale_in
from kgm.simulation.plan.synthetic_group import synthetic_group

#: What is predicted is tested elsewhere.
plan_scale_in = partial(scale_in.plan_scale_in, draws=1)
TOPICS = (TopicSnapshot(name="orders", partitions=12),)


def group(*names, dynamic=(), hosts=("/127.0.0.1",), clients=("app",)):
    """A group of these instance ids; its members own what the range assignor gives them. hosts, clients: of one member
    after another, from the beginning again when they are used up."""
    made_up = synthetic_group(len(names), TOPICS)
    members = tuple(
        replace(
            one,
            group_instance_id=None if name in dynamic else name,
            member_id=f"{name}-id",
            client_host=host,
            client_id=client,
        )
        for one, name, host, client in zip(
            made_up.members, names, itertools.cycle(hosts), itertools.cycle(clients), strict=False
        )
    )
    return BounceGroup(snapshot=replace(made_up, group_id="g", members=members))


def listed(*names, deleted=()):
    """What kubectl lists; the address of NAME-N is 10.0.0.N."""
    return ListedPods(
        pods=tuple(
            Pod(name=name, ip=f"10.0.0.{name.rpartition('-')[2]}", is_deleted=name in deleted)
            for name in (*names, *deleted)
        )
    )


def pods(*names):
    return group(*(f"app-{number}" for number in names))


def test_the_highest_ordinals_go_and_one_request_removes_them():
    planned = plan_scale_in(pods(0, 1, 2, 3), 2)
    assert [one.pod for one in planned.leaving] == ["app-3", "app-2"]
    assert planned.staying == ("app-0", "app-1")
    assert planned.prediction.typical.rebalances == 1
    assert planned.prediction.typical.final_assignment == {
        "app-0": {"orders": (0, 1, 2, 3, 4, 5)}, "app-1": {"orders": (6, 7, 8, 9, 10, 11)},
    }  # fmt: skip
    assert planned.commands.lines == (
        "kubectl scale statefulset/app --replicas=2",
        "kubectl wait --for=delete pod/app-3 pod/app-2 --timeout=5m",
        "kgm remove-members g --instance-ids 'app-{2..3}' --reason 'scale-in to 2'",
    )


def test_ordinals_are_numbers():
    assert [one.pod for one in plan_scale_in(pods(*range(12)), 9).leaving] == ["app-11", "app-10", "app-9"]


def test_dynamic_members_need_no_removal():
    both = group("a", "b", dynamic={"b"})
    both = BounceGroup(
        snapshot=replace(
            both.snapshot,
            members=tuple(replace(one, client_host=f"/10.0.0.{n}") for n, one in enumerate(both.snapshot.members)),
        )
    )
    planned = plan_scale_in(both, 1, pods=listed("web-0", "web-1"), kubectl=("kubectl", "-n", "shop"))
    assert [one.member.identity for one in planned.leaving] == ["b-id"]
    assert planned.commands.lines == (
        "kubectl -n shop scale statefulset/web --replicas=1",
        "kubectl -n shop wait --for=delete pod/web-1 --timeout=5m",
    )


@pytest.mark.parametrize(
    ("members", "replicas", "more", "message"),
    [
        (pods(0, 1), 2, {}, "no member of group 'g' leaves when app has 2 replicas"),
        (group("a-0", "b-1"), 1, {}, "belong to several sets: a, b"),
        (group("a-0", "worker"), 0, {}, "worker has no number at its end"),
        (group("a-0", "a-1", dynamic={"a-1"}), 0, {}, "a-1-id: it is dynamic"),
    ],
)
def test_what_is_not_certain_is_refused(members, replicas, more, message):
    with pytest.raises(RefusedError, match=message):
        plan_scale_in(members, replicas, **more)


def test_one_of_several_sets_is_named():
    planned = plan_scale_in(group("a-0", "a-1", "b-1"), 1, stateful_set="a")
    assert [one.pod for one in planned.leaving] == ["a-1"]
    assert planned.staying == ("a-0", "b-1")


def test_replicas_need_not_begin_at_0():
    planned = plan_scale_in(group(*(f"orders-{number}" for number in range(1, 13))), 10)
    assert [one.pod for one in planned.leaving] == ["orders-12", "orders-11"]
    assert planned.first == 1
    assert planned.commands.scale == "kubectl scale statefulset/orders --replicas=10"


def test_replicas_that_are_missing_make_it_uncertain_where_they_begin():
    """orders-1 may be the first one, or orders-0 may be away as orders-3 is."""
    some = group("orders-1", "orders-2", "orders-4")
    with pytest.raises(RefusedError, match="replicas may begin at 0 or 1") as refused:
        plan_scale_in(some, 3)
    assert refused.value.hint == "say where they begin: --first 0"
    assert [one.pod for one in plan_scale_in(some, 3, first=0).leaving] == ["orders-4"]
    assert [one.pod for one in plan_scale_in(some, 2, first=1).leaving] == ["orders-4"]
    assert [one.pod for one in plan_scale_in(pods(0, 2, 5), 3).leaving] == ["app-5"]


def test_no_replica_is_before_the_first():
    """A StatefulSet has its replicas from the first ordinal on: with one before it, more would stay than are asked for."""
    with pytest.raises(RefusedError, match="--first is 2, but there are replicas before it: app-0, app-1") as refused:
        plan_scale_in(pods(0, 1, 2, 3), 2, first=2)
    assert "--first 0" in refused.value.hint
    assert plan_scale_in(pods(1, 2, 3), 1, first=1).staying == ("app-1",)
    assert plan_scale_in(group("a-0", "b-1", "b-2"), 1, stateful_set="b", first=1).staying == ("a-0", "b-1")


@pytest.mark.parametrize("deleted", [(), ("app-0",)])
@pytest.mark.parametrize("replicas", range(4))
def test_a_pod_without_a_member_is_a_replica(replicas, deleted):
    """Kubernetes: a StatefulSet from ordinal 0 with N replicas has the pods 0 to N-1, whatever runs in them. app-0 has
    not joined, for example because it crashes or has just been deleted to start again."""
    running = [name for name in ("app-0", "app-1", "app-2", "app-3", "web-7") if name not in deleted]
    planned = plan_scale_in(pods(1, 2, 3), replicas, pods=listed(*running, deleted=deleted))
    assert [one.pod for one in planned.leaving] == [f"app-{n}" for n in (3, 2, 1) if n >= replicas]
    assert (planned.first, planned.without_member) == (0, ("app-0",))


def test_a_pod_without_a_member_is_no_member_that_leaves():
    with pytest.raises(RefusedError, match="no member of group 'g' leaves when app has 2 replicas") as refused:
        plan_scale_in(pods(0, 1), 2, pods=listed("app-0", "app-1", "app-2"))
    assert refused.value.facts == ("members: app-0, app-1", "pods without a member: app-2")


def test_no_pod_is_before_the_first_either():
    with pytest.raises(RefusedError, match="--first is 1, but there are replicas before it: app-0"):
        plan_scale_in(pods(1, 2), 1, first=1, pods=listed("app-0", "app-1", "app-2"))


@pytest.mark.parametrize(
    ("start", "replicas", "gone"),
    [
        (0, 2, ["app-2"]), (1, 1, ["app-2"]), (None, 1, ["app-2"]), (0, 1, ["app-2", "app-1"]), (0, 3, None),
        (2, 1, None),
    ],
)  # fmt: skip
def test_the_stateful_set_says_where_it_begins_if_no_pod_shows_it(start, replicas, gone):
    """Kubernetes: the ordinals are `.spec.ordinals.start` and the numbers after it. app-0 may be about to start."""
    asked = []

    def ask_first(name):
        asked.append(name)
        return start

    def plan():
        return plan_scale_in(pods(1, 2), replicas, pods=listed("app-1", "app-2"), ask_first=ask_first)

    if gone is None:
        with pytest.raises(RefusedError):
            plan()
    else:
        assert [one.pod for one in plan().leaving] == gone
    assert asked == ["app"]


def test_the_stateful_set_is_not_asked_for_what_is_known():
    for known in ({"first": 1}, {"pods": listed("app-0", "app-1", "app-2")}):
        given = {"pods": listed("app-1", "app-2"), **known}
        plan_scale_in(pods(1, 2), 1, **given, ask_first=lambda _name: pytest.fail("it was asked"))


SPRING = tuple(f"app-{replica}-{thread}" for replica in range(3) for thread in range(2))
STREAMS = tuple(f"app-{replica}-{thread}" for replica in range(1, 4) for thread in (1, 2))


@pytest.mark.parametrize(
    ("members", "replicas", "gone", "why"),
    [
        (group(*SPRING), 2, {"app-2-0", "app-2-1"}, "each of app-0, app-1, app-2 has 0 to 1 after it, as threads have"),
        (group(*STREAMS), 2, {"app-3-1", "app-3-2"}, "each of app-1, app-2, app-3 has 1 to 2 after it, as threads have"),
        (
            group(*STREAMS[:2], clients=("x-StreamThread-1-consumer", "x-StreamThread-2-consumer")), 0, set(STREAMS[:2]),
            "what follows app-1 is a thread of Kafka Streams",
        ),
        (
            group("app-1-StreamThread-1", "app-1-StreamThread-2", "app-2-StreamThread-1"), 1, {"app-2-StreamThread-1"},
            "what follows app-2 is a thread of Kafka Streams",
        ),
        (group("a-1-0", "a-1-1", hosts=("/10.0.0.1", "/10.0.0.2")), 1, {"a-1-1"}, "on different hosts, so it is no thread"),
        (group("a_1", "a_2"), 1, {"a_2"}, "it is the only number at the end of the name"),
        (group("a.01", "a.02"), 1, {"a.02"}, "it is the only number at the end of the name"),
    ],
)  # fmt: skip
def test_the_number_of_a_thread_is_not_that_of_the_replica(members, replicas, gone, why):
    planned = plan_scale_in(members, replicas)
    assert {one.member.identity for one in planned.leaving} == gone
    assert all(why in one.why for one in planned.leaving)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (group("app-1-0", "app-1-1"), "may be that of a replica of app-1, or of a thread in it"),
        (group("app-1-0"), "may be that of a replica of app-1, or of a thread in it"),
        (group("app-1-0", "app-1-1", "app-2-0"), "the second numbers are not the same after each first one"),
        (group("app-1-7", "app-2-7"), "the second numbers are not the same after each first one"),
        (group(*SPRING, hosts=("/10.0.0.1", "/10.0.0.2")), "the second numbers are not the same after each first one"),
        (group("app-1-0", "app-2"), "app-2 ends with one number, and others with two"),
        (group("app-0", "app-1", hosts=("/10.0.0.1",)), "their numbers may be those of threads of one process"),
        (group("app-0305e82c3301"), "app-0305e82c3301 has no number at its end"),
    ],
)
def test_what_the_names_do_not_tell_is_refused(members, message):
    with pytest.raises(RefusedError, match=message):
        plan_scale_in(members, 0)


def test_the_operator_says_what_precedes_the_number():
    members = group("app-1-0", "app-1-1", hosts=("/10.0.0.1",))
    assert [one.pod for one in plan_scale_in(members, 1, stateful_set="app-1").leaving] == ["app-1-1"]
    assert {one.pod for one in plan_scale_in(members, 0, stateful_set="app").leaving} == {"app-1"}
    single = group("app-0", "app-1", hosts=("/10.0.0.1",))
    assert [one.pod for one in plan_scale_in(single, 1, stateful_set="app").leaving] == ["app-1"]


def test_or_what_the_last_number_is():
    """Of Spring with one process, where nothing else tells."""
    spring = group("app-1-0", "app-1-1", "app-2-0", hosts=("/10.0.0.1", "/10.0.0.1", "/10.0.0.2"))
    with pytest.raises(RefusedError, match="not certain"):
        plan_scale_in(spring, 1)
    for unit in (UnitKind.INSTANCE, UnitKind.HOST):
        planned = plan_scale_in(spring, 1, unit=unit)
        assert [(one.member.identity, one.pod) for one in planned.leaving] == [("app-2-0", "app-2")]
        assert planned.leaving[0].why == f"--unit {unit.value}: what follows it is a thread"
    own = group("app-1-0", "app-1-1")
    assert [one.pod for one in plan_scale_in(own, 1, unit=UnitKind.MEMBER).leaving] == ["app-1-1"]
    assert [one.pod for one in plan_scale_in(own, 0, unit=UnitKind.INSTANCE).leaving] == ["app-1", "app-1"]
    with pytest.raises(RefusedError, match="web has no number of a thread at its end"):
        plan_scale_in(group("web", "app-1-1"), 1, unit=UnitKind.INSTANCE)


def told(*endpoints):
    """Dynamic members that say where they are reached."""
    base = group(*(f"m{number}" for number in range(len(endpoints))), dynamic={f"m{n}" for n in range(len(endpoints))})
    members = tuple(
        replace(one, work=MemberWork(user_endpoint=endpoint, active_tasks=()))
        for one, endpoint in zip(base.snapshot.members, endpoints, strict=True)
    )
    return BounceGroup(snapshot=replace(base.snapshot, members=members))


def test_dynamic_members_go_by_the_host_that_they_tell():
    """Connect workers tell their URL, Kafka Streams its application.server."""
    for endpoints in (
        [f"http://connect-{number}.connect.svc:8083/" for number in range(3)],
        [f"connect-{number}:7070" for number in range(3)],
    ):
        planned = plan_scale_in(told(*endpoints), 2)
        assert [(one.member.identity, one.pod) for one in planned.leaving] == [("m2-id", "connect-2")]
        assert planned.commands.lines == (
            "kubectl scale statefulset/connect --replicas=2",
            "kubectl wait --for=delete pod/connect-2 --timeout=5m",
        )
    planned = plan_scale_in(told("http://worker_1:80/", "http://worker_2:80/"), 1)
    assert planned.commands.lines[0] == "kgm rollout g --scale-in m1-id --exec-stop 'CMD {host}'"


@pytest.mark.parametrize("endpoint", [
    "http://10.0.0.7:8083/", "http://[fd00::7]:8083/", "http://ip-10-0-0-7.ec2.internal:8083/", "10-0-0-7.app.pod:7070",
    "7070", None,
])  # fmt: skip
def test_an_address_is_no_name(endpoint):
    with pytest.raises(RefusedError, match="m0-id: it is dynamic") as refused:
        plan_scale_in(told(endpoint), 0)
    assert "`kgm rollout g --scale-in` takes processes as they are" in refused.value.hint


def test_names_of_no_pods_are_stopped_by_a_rollout():
    planned = plan_scale_in(group("a_1", "a_2", "a_3"), 1)
    assert planned.commands.lines == (
        "kgm rollout g --remove a_2,a_3 --exec-stop 'CMD {instance_id}'",
        "kgm wait g --for members=1",
    )


_SEPARATORS = st.sampled_from(["-", "_", "."])


@settings(max_examples=30)
@given(
    base=st.from_regex(r"[a-z][a-z0-9]{0,5}[a-z]\Z"), sign=_SEPARATORS, first=st.integers(0, 3), count=st.integers(2, 5),
    thread=st.sampled_from([None, 0, 1, "stream"]), threads=st.integers(1, 3), replicas=st.integers(0, 4),
)  # fmt: skip
def test_the_processes_that_go_are_the_last_ones_or_kgm_refuses(base, sign, first, count, thread, threads, replicas):
    """Whatever they are called: of those that go no thread stays, and of those that stay none goes."""
    last = {
        None: lambda _n: "",
        0: lambda n: f"-{n}",
        1: lambda n: f"-{n + 1}",
        "stream": lambda n: f"-StreamThread-{n + 1}",
    }
    process_of = {
        f"{base}{sign}{number}{last[thread](n)}": number
        for number in range(first, first + count)
        for n in range(1 if thread is None else threads)
    }
    if replicas >= count:
        with pytest.raises(RefusedError, match="no member of group 'g' leaves"):
            plan_scale_in(group(*process_of), replicas)
        return
    planned = plan_scale_in(group(*process_of), replicas)
    gone = {one.member.identity for one in planned.leaving}
    assert gone == {name for name, number in process_of.items() if number >= first + replicas}
    assert {one.ordinal for one in planned.leaving} == {process_of[name] for name in gone}
    assert not any("--assume-stopped" in line or "--yes" in line for line in planned.commands.lines)


def test_a_negative_number_is_no_number_of_replicas():
    with pytest.raises(UsageError):
        plan_scale_in(pods(0), -1)
    with pytest.raises(UsageError):
        plan_scale_in(pods(0), 0, first=-1)
