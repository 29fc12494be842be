"""Plans for a group, with real clients that know nothing of them: Java's and librdkafka's live with waiting and with
taking somebody's place (KIP-345, future works)."""

from dataclasses import replace

import pytest

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.scale_out_plan import GroupPlans
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.kafka.members import JavaMembers, RdMembers, members_of, wait_settled
from tests.server.clients.served_group import group, wait_heartbeats
from tests.waiting import until

pytestmark = pytest.mark.slow
KINDS = pytest.mark.parametrize("kind", ["librdkafka", pytest.param("java", marks=pytest.mark.kafka)])
HOLD = TimerKey(TimerKind.HOLD, "g")
MOVES = ("revoked", "lost", "assigned")


def stable_with(server, *instances, without=()):
    """Wait until these are the members, and no rebalance is under way."""

    def there():
        view = group(server)
        return view is not None and view.state == "Stable" and sorted(instances) == sorted(
            member.group_instance_id for member in view.members
        )  # fmt: skip

    until(there, lambda: f"{instances} are not stable: {group(server)}")


def formed(members, server, names, partitions, assignor="range", *, session_timeout_ms=20_000):
    options = {"group": "g", "topics": ["t"], "assignor": assignor, "session_timeout_ms": session_timeout_ms}
    found = {name: members.start(instance_id=name, **options) for name in names}
    wait_settled(list(found.values()), partitions, timeout_s=60)
    stable_with(server, *names)
    return found, options


@KINDS
def test_three_newcomers_of_a_static_group_cost_one_rebalance(cluster, kind):
    """Four static members go on with what they have until all three pre-registered ones are there."""
    plans = GroupPlans(instance_ids=(("g", frozenset(["n1", "n2", "n3"])),))
    server = cluster({"t": 14}, plans=plans)
    with members_of(kind, server.bootstrap) as members:
        old, options = formed(members, server, "abcd", 14)
        generation = group(server).generation
        seen = {name: len(member.events) for name, member in old.items()}
        new = []
        for waiting in (("n1",), ("n1", "n2")):
            new.append(members.start(instance_id=waiting[-1], **options))
            until(lambda expected=waiting: group(server).held == expected, "the newcomer is not held")
        wait_heartbeats(server)
        assert (group(server).generation, group(server).state) == (generation, "Stable")
        for name, member in old.items():
            assert not [event for event in member.events[seen[name] :] if event.kind in MOVES]
        assert not any(member.of_kind("assigned", "fatal") for member in new)
        new.append(members.start(instance_id="n3", **options))
        wait_settled([*old.values(), *new], 14, timeout_s=60)
        stable_with(server, *"abcd", "n1", "n2", "n3")
        assert group(server).generation == generation + 1
        assert all(len(member.assignment) == 2 for member in (*old.values(), *new))
        for name, member in old.items():
            assert [event.kind for event in member.events[seen[name] :] if event.kind in MOVES] == [
                "revoked",
                "assigned",
            ]


def test_without_a_plan_each_of_them_costs_one(cluster):
    server = cluster({"t": 14})
    with RdMembers(server.bootstrap) as members:
        old, options = formed(members, server, "abcd", 14)
        generation = group(server).generation
        there = list(old.values())
        for count, name in enumerate(("n1", "n2", "n3"), start=1):
            there.append(members.start(instance_id=name, **options))
            wait_settled(there, 14, timeout_s=60)
            stable_with(server, *"abcd", *("n1", "n2", "n3")[:count])
        assert group(server).generation == generation + 3


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "assignor"),
    [
        ("librdkafka", "range"),
        ("librdkafka", "cooperative-sticky"),
        pytest.param("java", "cooperative-sticky", marks=pytest.mark.kafka),
    ],
)
def test_a_spare_takes_the_place_of_a_leader_that_crashed(cluster, kind, assignor):
    """The others notice nothing, and the spare consumes what the crashed one did."""
    server = cluster({"t": 6}, plans=GroupPlans(target_sizes=(("g", 2),)))
    with members_of(kind, server.bootstrap) as members:
        pair, options = formed(members, server, "ab", 6, assignor, session_timeout_ms=6_000)
        until(lambda: {len(member.assignment) for member in pair.values()} == {3}, "not shared evenly")
        stable_with(server, "a", "b")
        before = group(server)
        spare = members.start(instance_id="s", **options)
        until(lambda: group(server).held == ("s",), "the spare is not held")
        gone = next(m.group_instance_id for m in before.members if m.member_id == before.leader)
        stays = next(member for name, member in pair.items() if name != gone)
        seen, owned = len(stays.events), pair[gone].assignment
        pair[gone].crash()
        assert spare.wait_assigned(3, timeout_s=60) == owned
        assert [event for event in stays.events[seen:] if event.kind in MOVES] == []
        after = group(server)
        assert (after.generation, after.state, after.held) == (before.generation, "Stable", ())
        assert spare.member_id in {member.member_id for member in after.members}
        back = members.start(instance_id=gone, **options)
        until(lambda: group(server).held == (gone,), "who comes back is the next spare")
        assert not back.of_kind("fatal")


@pytest.mark.parametrize(
    ("kind", "instance_id"),
    [("librdkafka", "s"), ("librdkafka", None), pytest.param("java", None, marks=pytest.mark.kafka)],
)
def test_a_spare_that_has_waited_as_long_as_it_may_asks_again(cluster, kind, instance_id):
    """It is told REBALANCE_IN_PROGRESS, and every client joins again after that, static or dynamic."""
    plans = GroupPlans(target_sizes=(("g", 1),))
    server = cluster({"t": 6}, plans=plans, kgm_group_newcomer_max_wait_ms=1_000)
    with members_of(kind, server.bootstrap) as members:
        there, options = formed(members, server, "a", 6)
        generation, seen = group(server).generation, len(there["a"].events)
        spare = members.start(instance_id=instance_id, **options)
        waits = set()

        def held_again():
            waits.add(server.inspect(lambda view: view._engine("g").deadline(HOLD)))
            return len(waits - {None}) >= 2

        until(held_again, "the spare does not come again")
        assert not spare.of_kind("fatal", "assigned")
        assert [event for event in there["a"].events[seen:] if event.kind in MOVES] == []
        assert (group(server).generation, group(server).state) == (generation, "Stable")


def test_a_newcomer_that_is_killed_while_it_waits_is_not_waited_for(cluster):
    """Its connection ends, and its place in the plan is open again: nobody is assigned what it would not read."""
    server = cluster({"t": 6}, plans=GroupPlans(target_sizes=(("g", 2),)), kgm_group_newcomer_max_wait_ms=120_000)
    with RdMembers(server.bootstrap) as members:
        there, options = formed(members, server, "a", 6)
        generation, seen = group(server).generation, len(there["a"].events)
        plan = GroupPlans(target_sizes=(("g", 3),))
        server.inspect(lambda view: _plan(view, plan))
        for instance_id in ("killed", None):
            killed = members.start(instance_id=instance_id, **options)
            until(lambda: len(group(server).held) == 1, "the newcomer is not held")
            killed.crash()
            until(lambda: group(server).held == (), "the newcomer is waited for")
        late = members.start(instance_id="late", **options)
        until(lambda: group(server).held == ("late",), "the newcomer is not held")
        assert not [event for event in there["a"].events[seen:] if event.kind in MOVES]
        assert (group(server).generation, group(server).state) == (generation, "Stable")
        members.start(instance_id="last", **options)
        until(lambda: group(server).generation == generation + 1 and len(late.assignment) == 2, "not let in")


def test_a_newcomer_that_waits_follows_its_coordinator():
    """What is held is not in the log: the next coordinator is asked again, and waits for as many."""
    warnings = []
    settings = BrokerSettings(plans=GroupPlans(instance_ids=(("g", frozenset(["n1", "n2"])),)))
    with (
        serve_in_thread(topics={"t": 6}, settings=settings, brokers=2, warn=warnings.append) as server,
        RdMembers(server.bootstrap) as members,
    ):
        there, options = formed(members, server, "a", 6)
        generation, seen = group(server).generation, len(there["a"].events)
        new = [members.start(instance_id="n1", **options)]
        until(lambda: group(server).held == ("n1",), "the newcomer is not held")
        server.move_coordinator("g", 3 - server.coordinator_of("g"))
        until(lambda: group(server) is not None and group(server).held == ("n1",), "the newcomer is not held again")
        assert (group(server).generation, group(server).state) == (generation, "Stable")
        assert not [event for event in there["a"].events[seen:] if event.kind in MOVES]
        new.append(members.start(instance_id="n2", **options))
        wait_settled([there["a"], *new], 6, timeout_s=60)
        stable_with(server, "a", "n1", "n2")
        assert group(server).generation == generation + 1
    assert warnings == []


def _plan(view, plans):
    """Change the plans of a running server, as a restart with another --set would."""
    engine = view._engine("g")
    engine.settings = view._shards.settings = replace(engine.settings, plans=plans)


@pytest.mark.kafka
def test_java_and_librdkafka_wait_for_each_other(cluster):
    plans = GroupPlans(instance_ids=(("g", frozenset(["java", "rd"])),))
    server = cluster({"t": 6}, plans=plans)
    with JavaMembers(server.bootstrap) as java, RdMembers(server.bootstrap) as rd:
        old, options = formed(rd, server, "a", 6)
        generation = group(server).generation
        first = java.start(instance_id="java", **options)
        until(lambda: group(server).held == ("java",), "the newcomer is not held")
        assert len(old["a"].assignment) == 6
        second = rd.start(instance_id="rd", **options)
        wait_settled([old["a"], first, second], 6, timeout_s=60)
        stable_with(server, "a", "java", "rd")
        assert group(server).generation == generation + 1
