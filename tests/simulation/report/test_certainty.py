"""What a prediction says of members whose client library kgm does not play: never exact where it depends on them."""

from dataclasses import replace

import pytest

from kgm.clients.recognition import MemberEvidence, recognise
from kgm.model.client_library import LIKELY, ClientLibrary, stated_library
from kgm.model.errors import UsageError
from kgm.model.snapshot import TopicSnapshot
from kgm.protocol.subscription import MemberAssignment
from kgm.simulation.bounce import Simulation, simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.clients.recorded_groups import described
from tests.simulation.groups import DYNAMIC, STATIC, made_up

ALL = ("seat-0", "seat-1")
#: Those whose range assignor kgm has: 6 partitions of 12 move when the first of three members goes.
OWN_RANGE = {"franz-go", "sarama", "kafka-go", "kafka-python", "aiokafka"}
OTHERS = ["franz-go", "sarama", "kafka-go", "platformatic", "kafka-python", "aiokafka"]


def played(group, **plan):
    return simulate(group, Plan(**{"restart_time_ms": 2_000, **plan}), draws=5)


def consumer_group(assignor="uniform"):
    """Three members with four partitions each, which the broker has assigned."""
    return synthetic_group(3, [TopicSnapshot(name="t", partitions=12)], STATIC, assignor, GroupProtocol.CONSUMER)


def with_names_owned(group, *said):
    members = sorted(group.members, key=lambda one: one.identity)
    return replace(group, members=tuple(replace(one, names_owned=n) for one, n in zip(members, said, strict=True)))


def said(prediction, text):
    return any(text in caveat for caveat in prediction.caveats)


def of_library(library, assignor="range", members=3, **more):
    """A group as Java assigns it, whose members are of this library."""
    return made_up(members, 12, assignor=assignor, library=library, **more)


@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_what_kgm_plays_stays_exact(library):
    assert played(of_library(library), scale_in=("member-1",)).exact
    assert played(of_library(library), bounce=("member-1",)).exact


@pytest.mark.parametrize(
    ("likely", "other", "assignor", "exact"),
    [
        ("librdkafka", "kafka-python", "range", False), ("java", "sarama", "range", False),
        ("java", "franz-go", "range", True), ("java", "franz-go", "sticky", False),
    ],
)  # fmt: skip
def test_what_a_client_id_suggests_is_exact_only_if_the_others_do_the_same(likely, other, assignor, exact):
    library = ClientLibrary(name=likely, confidence=LIKELY, candidates=(likely, other))
    group = of_library(likely, assignor)
    group = replace(group, members=tuple(replace(one, client_library=library) for one in group.members))
    assert played(group, scale_in=("member-1",)).exact is exact
    assert played(of_library(likely, assignor), scale_in=("member-1",)).exact


@pytest.mark.parametrize("library", [*OTHERS, "kafkajs", "mine"])
def test_a_rebalance_of_another_library_is_never_exact_and_names_it(library):
    gone = played(of_library(library), scale_in=("member-1",))
    assert not gone.exact
    own = " with its range" if library in OWN_RANGE else ""
    how = "as Java consumers" if library == "mine" else f"as far as kgm knows it{own}"
    assert said(gone, f"use {library}, simulated {how}: member-1, member-2, member-3")
    # The partitions of the member that has gone move in any case.
    assert gone.ranges.moved_partitions.min >= 4
    assert gone.ranges.moved_partitions.max == (6 if library in OWN_RANGE else 12)


@pytest.mark.parametrize("library", ["sarama", "franz-go", "aiokafka"])
def test_a_static_restart_with_range_does_not_depend_on_the_library(library):
    back = played(described(library), bounce=ALL, rolling=Rolling())
    assert (back.exact, back.typical.rebalances, back.typical.moved_partitions) == (True, 0, 0)


@pytest.mark.parametrize(
    ("library", "assignor", "decides"),
    [
        ("sarama", "sticky", True), ("sarama", "cooperative-sticky", True),
        ("franz-go", "sticky", False), ("franz-go", "cooperative-sticky", False),
    ],
)  # fmt: skip
def test_who_gets_what_may_depend_on_the_order_of_a_go_map(library, assignor, decides):
    """How many partitions move does not: those of the member that goes. franz-go takes topics in that order, and there is
    one. Its sticky (1.22.3) assigns everything again, to the other two in turn: of 0, 3, 6, 9 and 1, 4, 7, 10 and 2, 5, 8,
    11, only 4 and 10, 5 and 11 stay; that of 1.15.4, which no byte tells apart, moves 4."""
    group = of_library(library, assignor)
    gone = played(group, scale_in=("member-1",))
    is_sticky = (library, assignor) == ("franz-go", "sticky")
    assert not gone.exact
    assert (gone.ranges.moved_partitions.min, gone.ranges.moved_partitions.max) == (4, 8 if is_sticky else 4)
    assert said(gone, "depends on the order of a Go map") is decides
    simulation = Simulation.of(group, Plan(scale_in=("member-1",)))
    draws = simulation.play(6)
    assert {draw.follows_map_order for draw in draws} == {decides}
    assert (len({str(draw.final_assignment) for draw in draws}) > 1) is decides


def test_claims_of_several_libraries_are_read_by_each_in_its_own_way():
    """Seen of aiokafka 0.14.0, sarama 1.61.1 and kafka-python 3.0.12 in one group with sticky: 3 of 5 partitions moved
    after a crash, where each for itself would move 2."""
    group = of_library("aiokafka", "sticky")
    other = replace(group.members[0], client_library=stated_library("sarama"))
    mixed = played(replace(group, members=(other, *group.members[1:])), scale_in=("member-2",))
    assert not mixed.exact
    assert (mixed.ranges.moved_partitions.min, mixed.ranges.moved_partitions.max) == (4, 12)
    assert said(mixed, "members of several libraries share sticky")


def of_three(library, assignor, *owned, static=True):
    """A group of three members of one topic of 12 partitions, with what the library has assigned."""
    group = made_up(3, 12, assignor=assignor, library=library, membership=STATIC if static else DYNAMIC)
    rows = sorted(group.members, key=lambda one: one.member_id)
    shown = tuple(
        replace(one, assignment={"t": tuple(numbers)}, listed_at=None) for one, numbers in zip(rows, owned, strict=True)
    )
    return replace(group, members=shown, leader_library=stated_library(library))


def owners(prediction):
    return sorted(found["t"] for found in prediction.typical.final_assignment.values())


def test_the_assignor_of_the_library_is_played():
    """As sarama 1.61.1 and kafka-go 0.4.51 assign: by the text t-10 before t-2, and i*P/M."""
    text = sorted(range(12), key=str)
    sarama = of_three("sarama", "roundrobin", *(sorted(text[at::3]) for at in range(3)))
    gone = played(sarama, scale_in=("member-3",))
    assert not said(gone, "does not explain")
    assert owners(gone) == sorted(tuple(sorted(text[at::2])) for at in range(2))
    assert gone.ranges.moved_partitions.min == gone.ranges.moved_partitions.max < 12
    assert not gone.exact
    more = played(of_three("kafka-go", "range", range(4), range(4, 8), range(8, 12), static=False), scale_out=2)
    assert [len(numbers) for numbers in owners(more)] == [2, 2, 3, 2, 3]
    assert not said(more, "does not explain")


def test_members_may_give_up_their_partitions_although_the_assignor_is_cooperative():
    """Seen of Java 4.3.0 with `cooperative-sticky,range` in its settings, as in an upgrade: when one of three went, two had
    the even and the odd partitions of 12, so that 8 moved and not 4."""
    group = of_three("java", "cooperative-sticky", range(0, 12, 3), range(1, 12, 3), range(2, 12, 3))
    unclear = with_names_owned(group, False, False, False)
    gone = played(unclear, scale_in=("member-3",))
    assert not gone.exact
    assert (gone.ranges.moved_partitions.min, gone.ranges.moved_partitions.max) == (4, 8)
    assert said(gone, "an eager assignor is configured along with cooperative-sticky")
    assert played(unclear, bounce=("member-1",)).exact  # nothing is assigned
    # Some have been upgraded, and the others not yet, or have come last.
    for said_by in ((False, True, False), (True, False, True)):
        gone = played(with_names_owned(group, *said_by), scale_in=("member-3",))
        assert not gone.exact
        assert said(
            gone, "member-2: no partitions are named" if said_by[0] else "member-1, member-3: no partitions are named"
        )
        assert gone.ranges.moved_partitions.min <= 4 <= gone.ranges.moved_partitions.max
    certain = with_names_owned(group, True, True, True)
    of_librdkafka = of_three("librdkafka", "cooperative-sticky", range(0, 12, 3), range(1, 12, 3), range(2, 12, 3))
    stated = played(unclear, scale_in=("member-3",), what_if=WhatIf(assignor="cooperative-sticky"))
    of_others = [played(one, scale_in=("member-3",)) for one in (certain, of_librdkafka, group)]
    for sure in (*of_others, stated):
        assert (sure.exact, sure.typical.moved_partitions) == (True, 4)


def test_where_several_libraries_are_possible_the_range_has_the_assignors_of_all():
    """Of 5 partitions Java gives 3 and 2 to two members, kafka-go 2 and 3: when the third goes, who had 1, two move, or
    only that one."""
    group = made_up(3, 5)
    both = ClientLibrary(candidates=("java", "kafka-go"))
    group = replace(group, members=tuple(replace(one, client_library=both) for one in group.members))
    either = played(group, scale_in=("member-3",)).ranges.moved_partitions
    assert (either.min, either.max) == (1, 2)


def test_static_members_of_platformatic_leave_when_they_are_closed():
    """Seen on Kafka 4.3.0: two rebalances for a restart, where those of others are none."""
    group = described("platformatic", "roundrobin")
    back = played(group, bounce=("seat-1",))
    assert (back.exact, back.typical.rebalances) == (False, 2)
    assert said(back, "static members leave when they are closed")
    killed = played(group, bounce=("seat-1",), stop=Stop.CRASH)
    assert killed.typical.rebalances == 0


def test_a_library_that_may_leave_has_both_in_its_range():
    unclear = ClientLibrary(candidates=("kafka-go", "platformatic"))
    group = made_up(3, 12)
    group = replace(group, members=tuple(replace(one, client_library=unclear) for one in group.members))
    back = played(group, bounce=("member-1",))
    assert not back.exact
    assert (back.ranges.rebalances.min, back.ranges.rebalances.max) == (0, 2)
    assert said(back, "it may be kafka-go or platformatic")


def test_a_tenth_library_that_nobody_taught():
    group = made_up(3, 12)
    unknown = tuple(replace(one, client_library=ClientLibrary(evidence=("odd bytes",))) for one in group.members)
    group = replace(group, members=unknown)
    back = played(group, bounce=("member-1",))
    # Nobody can say whether it leaves, and joins again.
    assert (back.exact, back.ranges.rebalances.min, back.ranges.rebalances.max) == (False, 0, 4)
    assert said(back, "the client library of member-1, member-2, member-3 is not known")
    assert played(group, bounce=("member-1",), stop=Stop.CRASH).typical.rebalances == 0
    mixed = replace(group, members=(*unknown[:1], *made_up(3, 12).members[1:]))
    assert played(mixed, bounce=("member-2",)).exact  # a Java member restarts, and nothing else happens
    assert not played(mixed, scale_in=("member-2",)).exact


def test_the_static_leader_of_franz_go_may_rejoin():
    """Seen: with the cooperative assignor the leader's restart costs a generation."""
    group = of_library("franz-go", "cooperative-sticky")
    back = played(group, bounce=("member-1",))
    assert (back.exact, back.typical.rebalances, back.ranges.rebalances.max) == (False, 0, 1)
    assert played(of_library("franz-go"), bounce=("member-1",)).exact


def test_the_static_leader_of_kafka_python_may_rejoin():
    """Seen on Kafka 4.3.0 with range: one more generation after the restart of the leader, and nothing moved."""
    back = played(described("kafka-python"), bounce=ALL, rolling=Rolling())
    assert (back.exact, back.typical.rebalances, back.ranges.rebalances.max) == (False, 0, 1)
    follower = replace(described("kafka-python"), leader=described("kafka-python").members[1].member_id)
    (one, other) = follower.members
    assert played(follower, bounce=(one.identity,)).exact
    assert not played(follower, bounce=(other.identity,)).exact


def test_the_leader_of_kafka_python_may_rejoin_after_each_rebalance():
    """Seen on Kafka 4.3.0: one when a session ended, one when the member came back, and each of them twice."""
    back = played(described("kafka-python"), bounce=("seat-1",), stop=Stop.CRASH, restart_time_ms=60_000)
    assert (back.exact, back.ranges.rebalances.min, back.ranges.rebalances.max) == (False, 2, 4)


def test_stop_and_return_of_kafka_go_may_share_a_rebalance():
    """Seen: one generation, where Java's members take two."""
    back = played(
        described("kafka-go", "roundrobin", static=False),
        bounce=(described("kafka-go", "roundrobin", static=False).members[0].member_id,),
    )
    assert back.ranges.rebalances.min <= 1
    assert not back.exact


def test_the_library_of_java_with_a_client_id_of_its_own_is_told_by_the_leader():
    """Only the bytes: version 3 with null, as Java and franz-go send, and assignments as franz-go writes them."""
    group = described("franz-go", client_id="rdkafka")
    assert {one.client_library.name for one in group.members} == {"franz-go"}
    assert not played(group, scale_in=("seat-1",)).exact


def test_a_custom_assignor_that_calls_itself_range_makes_nothing_exact():
    group = made_up(3, 12)
    swapped = [group.members[1], group.members[0], group.members[2]]
    odd = tuple(replace(one, assignment=two.assignment) for one, two in zip(group.members, swapped, strict=True))
    custom = replace(group, members=odd)
    gone = played(custom, scale_in=("member-3",))
    assert not gone.exact
    assert said(gone, "the assignor range as kgm knows it does not explain the current assignment")
    assert (gone.ranges.moved_partitions.min, gone.ranges.moved_partitions.max) == (4, 12)
    assert played(custom, bounce=("member-1",)).exact  # nothing is assigned
    # A gate that allows 6 moves must not take one draw for the whole truth.
    one = simulate(custom, Plan(scale_in=("member-3",)), draws=1, budget_ms=1)
    assert (one.draws, one.ranges.moved_partitions.max) == (1, 12)


def test_the_operator_knows_the_assignor_better():
    group = made_up(3, 12)
    shifted = (*group.members[1:], group.members[0])
    odd = tuple(replace(one, assignment=two.assignment) for one, two in zip(group.members, shifted, strict=True))
    known = simulate(replace(group, members=odd), Plan(scale_in=("member-3",)), draws=5)
    assert not known.exact
    named = simulate(
        replace(group, members=odd), Plan(scale_in=("member-3",), what_if=WhatIf(assignor="range")), draws=5
    )  # fmt: skip
    assert named.exact
    assert said(named, "the group is assumed to be stable under range")


@pytest.mark.parametrize("plan", [{"bounce": ("member-1",), "restart_time_ms": 90_000}, {"scale_in": ("member-1",)}])
def test_counts_are_told_for_an_assignor_that_kgm_does_not_know(plan):
    group = replace(made_up(3, 12), assignor="mine")
    found = played(group, **plan)
    assert (found.assignor, found.exact) == ("mine", False)
    assert found.ranges.rebalances.min >= 1
    assert found.ranges.moved_partitions.max == 12
    assert said(found, "kgm does not know the assignor mine")
    assert played(group, bounce=("member-1",)).exact


def test_a_client_id_alone_makes_nothing_exact():
    """Anyone may choose it: franz-go consumers, for example, run with client.id=rdkafka."""
    group = made_up(3, 12)
    by_id = [replace(one, client_library=None, client_id="rdkafka") for one in group.members]
    gone = played(replace(group, members=tuple(by_id)), scale_in=("member-1",))
    assert not gone.exact
    assert said(gone, "is not known: they are simulated as librdkafka consumers")
    # Whether a library leaves the group when it is closed depends on it, too.
    assert not played(replace(group, members=tuple(by_id)), bounce=("member-1",)).exact


def test_assignments_that_no_library_writes_come_from_another_assignor():
    """A custom assignor may be called range, and give what range gives until members change; here it writes user data,
    which range never does."""
    group = made_up(3, 12)
    written = [
        MemberAssignment(partitions=one.assignment, user_data=b"zones: a, b", version=3) for one in group.members
    ]
    likely = ClientLibrary(name="java", confidence=LIKELY, candidates=("java",))
    evidence = [MemberEvidence(member_id=str(number), assignment=one) for number, one in enumerate(written)]
    group = replace(
        group,
        members=tuple(replace(one, client_library=likely) for one in group.members),
        leader_library=recognise("g", "range", evidence).leader,
    )
    gone = played(group, scale_in=("member-1",))
    assert not gone.exact
    assert said(gone, "what no library that kgm knows writes: the leader's range may be a custom one")
    assert (gone.ranges.moved_partitions.min, gone.ranges.moved_partitions.max) == (4, 12)
    assert played(group, bounce=("member-1",)).exact


def test_brokers_may_have_an_assignor_that_kgm_does_not_know():
    """group.consumer.assignors takes class names (KIP-848)."""
    group = replace(consumer_group(), assignor="com.acme.ZoneAssignor")
    gone = played(group, scale_in=("member-1",))
    assert (gone.assignor, gone.exact) == ("com.acme.ZoneAssignor", False)
    assert said(gone, "kgm does not know the broker's assignor com.acme.ZoneAssignor")
    # The partitions of the member that has gone move in any case, and the assignor may move every other one.
    assert (gone.ranges.moved_partitions.min, gone.ranges.moved_partitions.max) == (4, 12)
    assert played(group, bounce=("member-1",)).exact
    with pytest.raises(UsageError, match="ZoneAssignor"):
        played(group, scale_in=("member-1",), what_if=WhatIf(membership=DYNAMIC))


def test_who_uses_an_assignor_that_kgm_does_not_know_may_be_of_any_library():
    """Seen on Kafka 4.3.0: members of a library of its own sent version 2, as Java 3.2 does, and left when they were
    closed."""
    group = replace(made_up(3, 12), assignor="mine")
    likely = ClientLibrary(name="java", confidence=LIKELY, candidates=("java",))
    members = tuple(replace(one, client_library=likely) for one in group.members)
    back = played(replace(group, members=members), bounce=("member-1",))
    assert (back.exact, back.ranges.rebalances.min) == (False, 0)
    assert back.ranges.rebalances.max >= 2
    assert said(back, "the client library of member-1, member-2, member-3 is not known")


def test_the_round_robin_of_kafkajs_is_known_by_its_name():
    group = described("kafkajs", "RoundRobinAssigner", static=False)
    gone = played(group, scale_in=(group.members[0].member_id,))
    assert (gone.assignor, gone.exact, gone.typical.became_stable) == ("roundrobin", False, True)
    assert not said(gone, "does not know the assignor")
    assert {topic: len(numbers) for topic, numbers in next(iter(gone.typical.final_assignment.values())).items()} == {
        "orders": 12, "pay": 5,
    }  # fmt: skip


def test_a_session_timeout_that_is_not_known_is_the_default_of_the_library():
    group = replace(described("aiokafka"), session_timeout_ms=None)
    back = played(group, bounce=("seat-0",), restart_time_ms=20_000)
    assert back.typical.rebalances > 0
    assert said(back, "the session timeout is not in the snapshot: 10 s is assumed")
    assert said(
        played(replace(group, rebalance_timeout_ms=None), bounce=("seat-0",)), "timeout is not in the snapshot: 10 s"
    )


def test_consumer_groups_depend_on_what_a_static_member_says_when_it_is_closed():
    group = made_up(3, 12)
    consumers = replace(
        group, type="consumer", assignor="uniform", group_epoch=3, assignment_epoch=3, generation=None,
        members=tuple(
            replace(one, protocol="consumer", member_epoch=3, client_library=stated_library("franz-go"))
            for one in group.members
        ),
    )  # fmt: skip
    back = played(consumers, bounce=("member-1",))
    # Seen on Kafka 4.3.0: refused until its session has ended, and so two epochs.
    assert (back.exact, back.ranges.generations.min, back.ranges.generations.max) == (False, 2, 2)
    assert played(consumers, scale_in=("member-1",)).exact
    java = replace(
        consumers, members=tuple(replace(one, client_library=stated_library("java")) for one in consumers.members)
    )
    assert played(java, bounce=("member-1",)).exact
