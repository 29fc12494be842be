"""Whether the named assignor explains the current assignment: on what Kafka's and other libraries' assignors really
gave, and after what history may have done since."""

import itertools
import json
import pathlib
import random
import tracemalloc
from dataclasses import replace

import pytest

from kgm.assignors import LIBRARIES, GroupSpec, MemberSpec, TopicSpec, assign, has_assignor
from kgm.assignors.map_order import MapOrder
from kgm.clients.table import CLIENTS
from kgm.model.client_library import PLAYED, stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.leader import in_map_order
from kgm.simulation.report.self_check import unexplained
from tests.clients.recorded_groups import RECORDED, described
from tests.selection import first_seed, sized

VECTORS = pathlib.Path(__file__).parents[2] / "vectors"
ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky"]


def given(case, *, library):
    """The group of a case, with the assignment that Kafka or librdkafka gave."""
    members = tuple(
        MemberSnapshot(
            member_id=row["member_id"], group_instance_id=row.get("group_instance_id"), rack=row.get("rack"),
            topics=tuple(row["topics"]), listed_at=number, client_library=stated_library(library),
            assignment={topic: tuple(numbers) for topic, numbers in case["expected"][row["member_id"]].items()},
        )
        for number, row in enumerate(case["members"])
    )  # fmt: skip
    topics = tuple(TopicSnapshot(name=row["name"], partitions=row["partitions"]) for row in case["topics"])
    return GroupSnapshot(
        group_id="g", type="classic", state="Stable", assignor=case["assignor"], topics=topics, members=members,
        leader_library=stated_library(library),
    )  # fmt: skip


def cases(folder, assignor):
    """Every fourth case; all of them with --long."""
    lines = (folder / f"{assignor}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[:: sized(4, 1)]]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_no_assignment_of_java_is_called_different(assignor):
    every = [given(case, library="java") for case in cases(VECTORS, assignor)]
    assert len(every) >= 40
    assert [unexplained(group) for group in every] == [None] * len(every)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_no_assignment_of_librdkafka_is_called_different(assignor):
    every = [given(case, library="librdkafka") for case in cases(VECTORS / "librdkafka", assignor)]
    assert len(every) >= 10
    assert [unexplained(group) for group in every] == [None] * len(every)


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_what_history_leaves_open_is_explained(assignor):
    """Kafka's own assignments, and then: partitions and a topic that have come since, static members with new member
    ids, and one that has returned with another subscription."""
    for case in cases(VECTORS, assignor):
        group = given(case, library="java")
        if any(member.rack for member in group.members) or not any(member.assignment for member in group.members):
            continue
        grown = tuple(replace(topic, partitions=topic.partitions + 3) for topic in group.topics)
        assert unexplained(replace(group, topics=(*grown, TopicSnapshot(name="new", partitions=4)))) is None
        back = tuple(
            replace(member, member_id=f"{member.group_instance_id}-again") if member.group_instance_id else member
            for member in group.members
        )
        assert unexplained(replace(group, members=back)) is None
        if len({member.group_instance_id is None for member in group.members}) == 1 and back[0].group_instance_id:
            alike = len({frozenset(member.topics) for member in back}) == 1
            wider = (replace(back[0], topics=(*back[0].topics, "new")), *back[1:])
            with_topic = (*group.topics, TopicSnapshot(name="new", partitions=4))
            assert not alike or unexplained(replace(group, members=wider, topics=with_topic)) is None


def a_member(chance, number, kind, topics):
    is_static = kind == "static" or (kind == "mixed" and chance.random() < 0.5)
    chosen = topics if chance.random() < 0.7 else chance.sample(topics, chance.randint(1, len(topics)))
    name = f"seat-{number}" if is_static else None
    return MemberSpec(member_id=a_member_id(chance, name), group_instance_id=name, topics=tuple(chosen))


def a_member_id(chance, instance_id):
    """As brokers make them."""
    return f"{instance_id or 'c'}-{chance.getrandbits(64):016x}"


def rebalanced(members, topics, assignor, library, generation, chance):
    """The members after a rebalance that one of them has led: their assignors are held against the libraries' own
    (tests/assignors). members: as the broker lists them."""
    leader = members[generation % len(members)].member_id
    for _ in range(4):
        group = GroupSpec(
            members=tuple(members), topics=tuple(topics), leader=leader, map_order=MapOrder(chance.shuffle)
        )  # fmt: skip
        given = assign(assignor, group, library)
        before, members = members, [replace(one, owned=given[one.member_id], generation=generation) for one in members]
        if assignor != "cooperative-sticky" or [one.owned for one in before] == [one.owned for one in members]:
            break
    return members


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("library", "assignor"),
    [(library, name) for name in ASSIGNORS for library in LIBRARIES if has_assignor(library, name)],
)
def test_groups_with_a_history_are_never_called_different(library, assignor):
    """Members come, go and restart, and topics grow, over several rebalances."""
    for number in range(sized(12, 600)):
        chance = random.Random(f"{first_seed() + number}/{library}/{assignor}")
        topics = [
            TopicSpec(name=f"t{place}", partitions=chance.randint(1, 12)) for place in range(chance.randint(1, 4))
        ]
        names, kind = [topic.name for topic in topics], chance.choice(["static", "dynamic", "mixed"])
        if library in CLIENTS and not CLIENTS[library].has_static_members:
            kind = "dynamic"
        members = [a_member(chance, place, kind, names) for place in range(chance.randint(1, 7))]
        for generation in range(1, chance.randint(2, 6)):
            members = rebalanced(in_map_order(members), topics, assignor, library, generation, chance)
            shown = []
            # Brokers list them in the order of a hash map, which Java's leaders make again from any order.
            is_listed = library == "platformatic"
            for place, one in enumerate(members if is_listed else chance.sample(members, len(members))):
                restarts = one.group_instance_id is not None and chance.random() < 0.4 and not is_listed
                shown.append(
                    MemberSnapshot(
                        member_id=a_member_id(chance, one.group_instance_id) if restarts else one.member_id,
                        topics=one.topics,
                        group_instance_id=one.group_instance_id,
                        assignment=one.owned,
                        listed_at=place,
                    )
                )
            grown = chance.choice([0, 0, 2])
            group = GroupSnapshot(
                group_id="g", type="classic", state="Stable", assignor=assignor, members=tuple(shown),
                topics=tuple(TopicSnapshot(name=each.name, partitions=each.partitions + grown) for each in topics),
                leader_library=stated_library(library) if library not in PLAYED or chance.random() < 0.5 else None,
            )  # fmt: skip
            assert unexplained(group) is None
            members = [*members]
            if chance.random() < 0.4 and len(members) > 1:
                members.pop(chance.randrange(len(members)))
            else:
                members.append(a_member(chance, 100 + generation, kind, names))


@pytest.mark.parametrize(
    "group", RECORDED, ids=lambda group: f"{group['library']} {group['version']} {group['assignor']}"
)
def test_real_groups_of_nine_libraries(group):
    """Those of kafka-go's range assignor too, which gives 2 and 3 of 5 partitions, where Java's gives 3 and 2."""
    shown = described(group["library"], group["assignor"], static=False)
    assert unexplained(shown) is None
    if (group["library"], group["assignor"]) == ("kafka-go", "range"):
        found = unexplained(replace(shown, leader_library=stated_library("java")))
        assert "1 of 17 partitions would have another owner, for example pay-2" in found


def of(assignor, *owned, static=True, topics=("orders",), partitions=12):
    members = tuple(
        MemberSnapshot(
            member_id=f"m-{number}", group_instance_id=f"seat-{number}" if static else None, topics=topics,
            assignment={topic: tuple(numbers) for topic, numbers in one.items()}, listed_at=number,
        )
        for number, one in enumerate(owned)
    )  # fmt: skip
    return GroupSnapshot(
        group_id="g", type="classic", state="Stable", assignor=assignor, members=members,
        topics=tuple(TopicSnapshot(name=topic, partitions=partitions) for topic in topics),
    )  # fmt: skip


def test_roundrobin_that_sorts_partitions_as_text_is_found():
    """As sarama does: orders-10 and orders-11 come before orders-2."""
    text = sorted(range(12), key=str)
    sarama = of("roundrobin", *({"orders": sorted(text[start::3])} for start in range(3)))
    assert "does not explain the current assignment" in unexplained(sarama)
    assert unexplained(replace(sarama, leader_library=stated_library("sarama"))) is None


def test_the_order_in_which_platformatic_takes_members_may_not_be_known():
    """As `kgm serve` lists them. Kafka lists them in the order of a hash map, by which the second one gets partition 0."""
    rows = [{"orders": range(start, 12, 3)} for start in range(3)]

    def shown(first, second, third):
        group = of("roundrobin", rows[first], rows[second], rows[third], static=False)
        return replace(group, leader_library=stated_library("platformatic"))

    def by_map(group):
        places = (1, 0, 2)
        return replace(
            group,
            members=tuple(replace(one, listed_at=at) for one, at in zip(group.members, places, strict=True)),
        )

    every = [shown(*order) for order in itertools.permutations(range(3))]
    assert [unexplained(group) for group in every] == [None] * len(every)
    uneven = of("roundrobin", {"orders": range(6)}, {"orders": range(6, 10)}, {"orders": [10, 11]}, static=False)
    assert "does not explain" in unexplained(replace(uneven, leader_library=stated_library("platformatic")))
    assert [unexplained(by_map(group)) is None for group in every] == [False, False, True, False, False, False]


def test_range_over_five_members_as_kafka_go_has_it_is_found():
    edges = [number * 12 // 5 for number in range(6)]
    blocks = [{"orders": range(first, end)} for first, end in itertools.pairwise(edges)]
    assert [len(block["orders"]) for block in blocks] == [2, 2, 3, 2, 3]
    assert "range" in unexplained(of("range", *blocks))
    assert unexplained(replace(of("range", *blocks), leader_library=stated_library("kafka-go"))) is None


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_an_uneven_assignment_is_none_of_a_sticky_assignor(assignor):
    assert unexplained(of(assignor, {"orders": range(6)}, {"orders": range(6, 12)})) is None
    uneven = unexplained(of(assignor, {"orders": range(9)}, {"orders": range(9, 12)}))
    assert "a custom one" in uneven


def test_a_partition_that_no_topic_can_have_takes_no_memory():
    """A leader may assign any number up to 2**31 - 1: it is no past partition count to play an assignor with."""
    group = of("range", {"orders": range(11)}, {"orders": [3_000_000]})
    tracemalloc.start()
    try:
        assert "does not explain the current assignment" in unexplained(group)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_what_cannot_be_checked_is_not_called_different():
    wrong = of("range", {"orders": [0, 11]}, {"orders": range(1, 11)})
    assert unexplained(wrong) is not None
    first, second = wrong.members
    for group in (
        replace(wrong, state="PreparingRebalance"),
        replace(wrong, assignor="mine"),
        replace(wrong, type="consumer", assignor="com.acme.ZoneAssignor"),
        replace(wrong, members=(replace(first, topics=None), second)),
        replace(wrong, members=(replace(first, is_readable=False), second)),
        of("cooperative-sticky", {"orders": range(6)}, {"orders": range(6, 10)}),
    ):
        assert unexplained(group) is None


def of_broker(assignor, *shares, topics=None):
    """A consumer group (KIP-848)."""
    group = replace(of(assignor, *shares), type="consumer", leader_library=None)
    if topics is None:
        return group
    named = [replace(one, topics=each) for one, each in zip(group.members, topics, strict=True)]
    return replace(group, members=tuple(named))


@pytest.mark.few(4)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_no_assignment_of_the_broker_is_called_different(assignor, size):
    """After members have come and gone, and the topic has grown."""
    for partitions in range(1, 14):
        group = synthetic_group(
            size, [TopicSnapshot(name="t", partitions=partitions)], Membership.STATIC, assignor, GroupProtocol.CONSUMER
        )
        assert unexplained(group) is None
        left = simulate(group, Plan(scale_in=(group.members[0].identity,), scale_out=2), draws=1)
        after = of_broker(assignor, *left.typical.final_assignment.values())
        assert unexplained(after) is None


def test_the_brokers_assignors_leave_no_uneven_assignment():
    uneven = [{"orders": range(11)}, {"orders": [11]}, {}]
    for assignor in ("uniform", "range"):
        assert "have about the same number of partitions, and not 0 and 11" in unexplained(of_broker(assignor, *uneven))
    gone = simulate(of_broker("uniform", *uneven), Plan(scale_in=("seat-1",)), draws=3)
    assert (gone.exact, gone.ranges.moved_partitions.min, gone.ranges.moved_partitions.max) == (False, 1, 12)
    # range balances each topic, and the first members get one more of both; uniform does not.
    both = [{"orders": [0, 1], "pay": [0, 1]}, {"orders": [2], "pay": [2]}]
    assert unexplained(of_broker("range", *both, topics=[("orders", "pay")] * 2)) is None
    assert "and not 2 and 4" in unexplained(of_broker("uniform", *both, topics=[("orders", "pay")] * 2))
    # Of members with different topics one may have all.
    assert unexplained(of_broker("uniform", *uneven, topics=[("orders",), ("orders",), ("pay",)])) is None


@pytest.mark.parametrize(("library", "explains"), [("kafka-go", True), ("platformatic", True), ("sarama", False)])
def test_members_that_librdkafka_cannot_read_own_nothing(library, explains):
    """Seen on Kafka 4.3.0: librdkafka leads, and kafka-go's subscription ends before the owned partitions."""
    names = {"a": library, "b": "librdkafka"}
    members = tuple(
        MemberSnapshot(
            member_id=name, topics=("t",), client_library=stated_library(client),
            assignment={"t": (0, 1, 2)} if client == "librdkafka" else {},
        )
        for name, client in names.items()
    )  # fmt: skip
    shown = GroupSnapshot(
        group_id="g", type="classic", state="Stable", assignor="range", members=members, leader="b",
        topics=(TopicSnapshot(name="t", partitions=3),), leader_library=stated_library("librdkafka"),
    )  # fmt: skip
    assert (unexplained(shown) is None) is explains
    simulated = simulate(shown, Plan(bounce=("a",), restart_time_ms=2_000), draws=5)
    assert (simulated.typical.moved_partitions == 0) is explains
