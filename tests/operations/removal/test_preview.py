"""What a removal would do: the assignor of the group on those who stay."""

import dataclasses
import random

import pytest

from kgm.java.timeline_hash_map import TimelineOrder
from kgm.model.assignment import moves
from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.operations.removal.consequences import classic_only_warning, stall_warnings
from kgm.operations.removal.guard import GuardReport, proof_window_ms
from kgm.operations.removal.liveness import Liveness, LivenessVerdict
from kgm.operations.removal.plan import resolve
from kgm.operations.removal.preview import expected_moves as expected
from kgm.operations.removal.preview import preview_moves
from kgm.operations.removal.request import RemovalRequest
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.simulation.groups import made_up


def member(name, assignment, *, topics=("t",), static=True, **more):
    return MemberSnapshot(
        member_id=f"{name}-1", group_instance_id=name if static else None, topics=topics, assignment=assignment, **more
    )


def group(*members, assignor="range", kind="classic", state="Stable", partitions=4):
    return GroupSnapshot(
        group_id="g",
        type=kind,
        state=state,
        assignor=assignor,
        members=members,
        topics=(TopicSnapshot(name="t", partitions=partitions),),
    )


def expected_moves(*arguments, **more):
    return expected(*arguments, **more).moves


def shown(moves):
    return [(m.topic, m.partition, m.owner_before, m.owner_after) for m in moves]


def test_range_moves_also_what_was_not_freed():
    before = group(member("a", {"t": [0, 1]}), member("b", {"t": [2]}), member("c", {"t": [3]}))
    moves = expected_moves(before, ["a-1"])
    assert shown(moves) == [("t", 0, "a", "b"), ("t", 1, "a", "b"), ("t", 2, "b", "c")]


def test_cooperative_moves_only_what_was_freed():
    before = group(
        member("a", {"t": [0]}), member("b", {"t": [1, 2]}), member("c", {"t": [3]}), assignor="cooperative-sticky"
    )
    assert shown(expected_moves(before, ["a-1"])) == [("t", 0, "a", "c")]


def test_cooperative_is_followed_through_its_second_round():
    """The joiner b gets its partitions in the round after the one in which they are given up."""
    before = group(member("a", {"t": [0, 1, 2, 3]}), member("b", {}), member("c", {}), assignor="cooperative-sticky")
    moves = expected_moves(before, ["c-1"])
    assert len(moves) == 2
    assert {m.owner_after for m in moves} == {"b"}


def test_the_last_member_frees_everything():
    assert shown(expected_moves(group(member("a", {"t": [0]})), ["a-1"])) == [("t", 0, "a", None)]


def test_dynamic_members_go_by_their_member_id():
    before = group(member("a", {"t": [0, 1]}, static=False), member("b", {"t": [2, 3]}, static=False))
    assert {m.owner_after for m in expected_moves(before, ["a-1"])} == {"b-1"}


def test_consumer_groups_use_the_servers_assignor_and_the_target():
    before = group(
        member("a", {"t": [0, 1]}, target_assignment={"t": [0, 1]}),
        member("b", {"t": [2]}, target_assignment={"t": [2, 3]}, topics=(), regex="t.*"),
        assignor="uniform", kind="consumer", state="Reconciling",
    )  # fmt: skip
    moves = expected_moves(before, ["a-1"])
    assert {(m.partition, m.owner_after) for m in moves} == {(0, "b"), (1, "b"), (3, "b")}


def test_a_regular_expression_takes_only_what_matches(mocker):
    """A broker resolves it over all topics: what does not match has no owner, and a new topic that matches gets one."""
    before = group(
        member("a", {"t": [0, 1], "u": [0]}, target_assignment={"t": [0, 1], "u": [0]}, topics=("t", "u")),
        member("b", {"t": [2]}, target_assignment={"t": [2, 3]}, topics=(), regex="t.*"),
        assignor="uniform", kind="consumer", state="Reconciling",
    )  # fmt: skip
    others = (TopicSnapshot(name=name, partitions=1) for name in ("u", "tt"))
    before = dataclasses.replace(before, topics=(*before.topics, *others))
    moves = expected_moves(before, ["a-1"])
    after = {(m.topic, m.partition): m.owner_after for m in moves}
    assert after == {("t", 0): "b", ("t", 1): "b", ("t", 3): "b", ("u", 0): None, ("tt", 0): "b"}
    mocker.patch("kgm.java.re2j.is_installed", return_value=False)
    assert "cannot match the regular expression of b" in preview_moves(before, ["a-1"]).notes[0]


@pytest.mark.few(9)
@pytest.mark.parametrize("size", range(3, 30))
def test_in_consumer_groups_the_engine_does_what_the_preview_tells(size):
    """Listed as by a broker whose group was larger once; test_preview_reality.py asks a real one."""
    chance = random.Random(size)
    topics = [
        TopicSnapshot(name=f"t{number}", partitions=chance.randint(1, 40), topic_id=chance.randbytes(16))
        for number in range(chance.randint(1, 6))
    ]
    made_up = synthetic_group(size, topics, Membership.STATIC, "uniform", GroupProtocol.CONSUMER)
    past = TimelineOrder(64)
    listed = past.sorted(member.member_id for member in chance.sample(made_up.members, size))
    members = tuple(dataclasses.replace(member, listed_at=listed.index(member.member_id)) for member in made_up.members)
    before = dataclasses.replace(made_up, members=members)
    gone = {member.identity: member.member_id for member in chance.sample(members, chance.randint(1, size // 3))}
    told = expected_moves(before, gone.values())
    played = simulate(before, Plan(remove=tuple(gone)), draws=5)
    assert played.exact
    assert set(told) == set(moves({one.identity: one.assignment for one in members}, played.typical.final_assignment))


@pytest.mark.parametrize(
    "before",
    [
        group(member("a", {}), member("b", {}), assignor="of-somebodys-own"),
        group(member("a", {}), member("b", {}), assignor=None),
        group(member("a", {}), member("b", {}), state="PreparingRebalance"),
        group(member("a", {}), member("b", {}, topics=())),
        group(member("a", {}), member("b", {}), kind="share", assignor="range"),
        group(
            member("a", {"gone": [0]}, topics=("gone",)),
            member("b", {"gone": [1]}, topics=("gone",)),
            assignor="sticky",
            kind="streams",
        ),
    ],
)
def test_no_answer_rather_than_a_guess(before):
    assert expected_moves(before, ["a-1"]) is None


def test_why_there_is_no_answer_is_told_where_somebody_could_wonder():
    streams = group(member("a", {"t": [0]}), member("b", {"t": [1]}), assignor="stream")
    connect = dataclasses.replace(streams, protocol_type="connect", assignor="sessioned")
    notes = [note for kind in (streams, connect) for note in expected(kind, ["a-1"]).notes]
    assert [note.split(": ")[1] for note in notes] == [
        "group g is a Kafka Streams application", "group g is a Kafka Connect group",
    ]  # fmt: skip


def test_nothing_is_predicted_for_topics_that_could_not_be_described():
    """Their partitions would look as if nobody got them."""
    before = dataclasses.replace(group(member("a", {"t": [0]}), member("b", {"t": [1]})), topics=())
    assert shown(preview_moves(before, ["a-1"]).moves) == [("t", 0, "a", None), ("t", 1, "b", None)]
    unknown = preview_moves(before, ["a-1"], undescribed_topics={"t", "other"})
    assert (unknown.moves, unknown.notes) == (
        None, ("which partitions will move is not known: topic 't' could not be described",),
    )  # fmt: skip
    everybody = preview_moves(before, ["a-1", "b-1"], undescribed_topics={"t"})
    assert shown(everybody.moves) == [("t", 0, "a", None), ("t", 1, "b", None)]


def in_racks(*racks, assignor="range", library="java"):
    """A group of as many members, each in one of these racks or in none, the last of which is to be removed."""
    before = made_up(len(racks), 12, assignor=assignor, library=library)
    placed = zip(before.members, racks, strict=True)
    return dataclasses.replace(before, members=tuple(dataclasses.replace(one, rack=rack) for one, rack in placed))


RACKS = [("r1", "r2", "r3"), ("r1", "r1", "r1"), ("r1", None, None), (None, None, "r1"), (None, None, None)]


@pytest.mark.few(9)
@pytest.mark.parametrize("racks", RACKS)
@pytest.mark.parametrize(
    ("assignor", "library"),
    [
        *((assignor, "java") for assignor in ("range", "sticky", "cooperative-sticky", "roundrobin")),
        *((assignor, "librdkafka") for assignor in ("range", "cooperative-sticky", "roundrobin")),
        *((assignor, "franz-go") for assignor in ("range", "cooperative-sticky")),
    ],
)
def test_nothing_is_predicted_where_racks_may_decide_as_nothing_is_simulated(racks, assignor, library):
    """KIP-881: the range and the sticky assignors of Java and librdkafka match racks of members and of replicas, which no
    description of a group has."""
    before = in_racks(*racks, assignor=assignor, library=library)
    last = before.members[-1]
    found = preview_moves(before, {last.member_id})
    caveats = simulate(before, Plan(remove=(last.identity,)), draws=5).caveats
    by_rack = f"{assignor} may assign members partitions of their own racks"
    matter = any(racks) and assignor != "roundrobin" and library != "franz-go"
    assert any(text.startswith(by_rack) for text in caveats) is matter
    if matter:
        assert (found.moves, found.notes) == (None, (f"which partitions will move is not known: {by_rack}",))
    else:
        assert found.moves


def test_what_is_freed_by_all_members_goes_to_nobody_whatever_their_racks():
    before = in_racks("r1", "r2")
    found = preview_moves(before, {one.member_id for one in before.members})
    assert {one.owner_after for one in found.moves} == {None}
    assert len(found.moves) == 12


def guard_report(sessions_ms=None, rebalance_ms=None, **verdicts):
    return GuardReport(
        liveness={
            f"{name}-1": Liveness(verdict=LivenessVerdict(verdict), evidence=()) for name, verdict in verdicts.items()
        },
        session_timeouts_ms=sessions_ms or {},
        rebalance_timeout_ms=rebalance_ms,
    )


MEMBERS = (member("a", {}), member("b", {}), member("c", {}), member("d", {}, static=False))


@pytest.mark.parametrize(
    ("proofs_ms", "window_ms"),
    [
        ({"a-1": 47_000, "b-1": 14_000}, 47_000),
        ({"b-1": 14_000}, None),
        ({"a-1": 47_000, "b-1": 14_000, "c-1": 90_000}, 47_000),
        ({}, None),
    ],
)
def test_the_look_that_gives_proof_of_each_is_the_longest_of_theirs(proofs_ms, window_ms):
    report = dataclasses.replace(guard_report(a="unknown", b="unknown", c="alive"), proofs_ms=proofs_ms)
    plan = resolve(RemovalRequest(group_id="g", instance_ids=("a", "b", "c")), group(*MEMBERS))
    assert proof_window_ms(plan, report) == window_ms


def test_static_members_that_have_stopped_and_stay_hold_everybody_up():
    report = guard_report(a="stopped", b="stopped", c="alive", d="stopped")
    (text,) = stall_warnings(group(*MEMBERS), ["a-1"], report)
    assert text.startswith("b has stopped too and stays in the group: the rebalance waits for it, until")
    assert stall_warnings(group(*MEMBERS), ["a-1", "b-1"], report) == []
    assert stall_warnings(group(*MEMBERS, kind="consumer"), ["a-1"], report) == []


def test_the_stall_is_predicted_also_where_nothing_shows_who_has_stopped():
    report = guard_report({"b-1": 30_000, "c-1": 1_800_000}, 300_000, a="unknown", b="unknown")
    (text,) = stall_warnings(group(*MEMBERS), ["a-1"], report)
    assert text == (
        "b, c are not known to be alive, and stay in the group: if one of them has stopped, "
        "every member waits for it in the rebalance, up to 300 s"
    )
    (text,) = stall_warnings(group(*MEMBERS), ["a-1", "c-1"], report)
    assert text.endswith("if it has stopped, every member waits for it in the rebalance, up to 30 s")


def mixed(*protocols):
    members = (member(f"m{at}", {"t": [at]}, protocol=protocol) for at, protocol in enumerate(protocols))
    return group(*members, kind="consumer", assignor="uniform")


def test_who_removes_the_last_member_with_the_new_protocol_is_told_what_that_means():
    both = mixed("consumer", "classic", "classic")
    text = classic_only_warning(both, ["m0-1"], {"group.consumer.migration.policy": "bidirectional"})
    assert text == (
        "no member with the consumer protocol is left: group g becomes a classic group and rebalances; "
        "the 2 members that stay use the classic protocol, whose own assignor then assigns the partitions"
    )
    assert expected_moves(both, ["m0-1"]) is None
    assert expected_moves(both, ["m1-1"]) is not None
    one = classic_only_warning(both, ["m0-1", "m1-1"], {})
    assert (
        "rebalances, unless group.consumer.migration.policy forbids it (then t[0-1] will have no consumer until a "
        "member joins or rejoins); the member that stays uses"
    ) in one


@pytest.mark.parametrize(
    ("protocols", "settings"),
    [
        (("classic", "consumer"), {}),
        (("consumer", "consumer", "classic"), {}),
        (("consumer",), {}),
    ],
)
def test_a_group_that_stays_what_it_is_needs_no_warning(protocols, settings):
    assert classic_only_warning(mixed(*protocols), ["m0-1"], settings) is None


POLICY = "group.consumer.migration.policy"


@pytest.mark.parametrize(
    ("protocols", "settings", "why"),
    [
        (("consumer", "classic"), {POLICY: "upgrade"}, f"{POLICY}=upgrade"),
        (("consumer", "classic"), {POLICY: "disabled"}, f"{POLICY}=disabled"),
        (("classic", "classic"), {POLICY: "upgrade"}, f"{POLICY}=upgrade"),
        (("consumer", "classic", "classic"), {"group.max.size": "1"}, "2 members, and group.max.size=1"),
    ],
)
def test_who_leaves_a_consumer_group_to_members_of_the_classic_protocol_is_told_that_it_hangs(protocols, settings, why):
    """test_classic_only.py does it, on real brokers."""
    before = mixed(*protocols)
    text = classic_only_warning(before, ["m0-1"], settings)
    assert f"does not become a classic group ({why})" in text
    assert "so t[0] will have no consumer until a member joins or rejoins" in text
    assert expected_moves(before, ["m0-1"]) is None
    for version, waits in {"4.2.0": False, "4.3.0": True}.items():
        on_version = dataclasses.replace(before, kafka_versions=(BrokerVersion.parse(version),))
        assert (classic_only_warning(on_version, ["m0-1"], settings) is not None) is waits


def test_a_member_that_is_away_assigns_nothing_either():
    """Its session has not ended, so that the group is no classic group yet."""
    before = mixed("consumer", "consumer", "classic")
    left = dataclasses.replace(before.members[1], status="away", member_epoch=-2)
    before = dataclasses.replace(before, members=(before.members[0], left, before.members[2]))
    text = classic_only_warning(before, ["m0-1"], {POLICY: "bidirectional"})
    assert "does not become a classic group (m1: away, and still a member)" in text
    assert expected_moves(before, ["m0-1"]) is None


@pytest.mark.parametrize(("assignor", "kind"), [
    ("range", "classic"), ("roundrobin", "classic"), ("cooperative-sticky", "classic"), ("uniform", "consumer"),
])  # fmt: skip
def test_nothing_is_told_where_partitions_are_new(assignor, kind):
    """Seen with Java members of classic groups, whose leader goes by metadata that may be five minutes old: with range
    7 moves were told and 3 happened. In a consumer group, a regular expression that is resolved again later."""
    names = {"classic": {"topics": ("a", "b")}, "consumer": {"topics": (), "regex": "[ab]"}}[kind]
    owned = {"x1": {"a": [0, 1], "b": [0]}, "x2": {"a": [2, 3], "b": [1]}, "x3": {"a": [4, 5], "b": [2]}}
    members = (member(name, those, client_library=stated_library("java"), **names) for name, those in owned.items())
    before = group(*members, assignor=assignor, kind=kind)
    before = dataclasses.replace(
        before, topics=tuple(TopicSnapshot(name=name, partitions=9 - 6 * (name == "b")) for name in "ab")
    )
    told = preview_moves(before, ["x2-1"])
    played = simulate(before, Plan(remove=("x2",)), draws=2)
    why = "3 subscribed partitions have no owner, for example a-6: the group may still rebalance without the plan"
    assert told.moves is None
    assert why in told.notes[0]
    assert any(why in caveat for caveat in played.caveats)


def test_a_target_assignment_that_has_all_partitions_is_known_before_its_members_have_it():
    before = group(
        member("a", {"t": [0]}, target_assignment={"t": [0, 1]}), member("b", {"t": [2]}, target_assignment={"t": [2, 3]}),
        assignor="uniform", kind="consumer", state="Reconciling",
    )  # fmt: skip
    assert shown(preview_moves(before, ["a-1"]).moves) == [
        ("t", 0, "a", "b"), ("t", 1, None, "b"), ("t", 3, None, "b"),
    ]  # fmt: skip
