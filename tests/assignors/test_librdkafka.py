"""What consumers built on librdkafka answer as leaders, and where that differs from Java."""

import dataclasses
import json
import random

import pytest

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, result
from kgm.assignors.client import librdkafka, librdkafka_alike, sticky_general
from kgm.model.errors import UsageError
from tests import ROOT
from tests.assignors.groups import SEQUENCES, assign, every_case, group_of

#: What a broker answered.
RECORDED = [f"topic-{i:02d}" for i in (7, 3, 1, 5, 6, 10, 8, 2, 4, 9, 11, 0)]
VECTORS = ROOT / "tests" / "vectors" / "librdkafka"


@pytest.mark.slow
@pytest.mark.parametrize("name", librdkafka.ASSIGNORS)
def test_answers_are_those_of_librdkafka(name):
    cases = [json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text().splitlines()]
    assert len(cases) == 120
    wrong = [case["case"] for case in cases if assign(name, group_of(case), "librdkafka") != case["expected"]]
    assert wrong == []


@pytest.mark.slow
def test_the_difference_shows():
    """Were these the answers of a Java leader, there would be nothing to port."""
    cases = [json.loads(line) for line in (VECTORS / "cooperative-sticky.jsonl").read_text().splitlines()]
    other = [case for case in cases if assign("cooperative-sticky", group_of(case)) != case["expected"]]
    assert len(other) > 40


def group(members, **topics):
    return GroupSpec(
        members=tuple(members), topics=tuple(TopicSpec(name=name, partitions=count) for name, count in topics.items())
    )


def member(member_id, *topics, owned=None, **more):
    return MemberSpec(member_id=member_id, topics=topics, owned=owned or {}, **more)


def test_it_has_no_eager_sticky_and_the_coordinator_does_not_care():
    with pytest.raises(UsageError, match="no assignor 'sticky' for librdkafka"):
        assign("sticky", group([]), "librdkafka")
    with pytest.raises(UsageError, match="library 'go' is not known"):
        assign("range", group([]), "go")
    one = group([member("m", "t")], t=1)
    assert assign("consumer-uniform", one, "librdkafka") == {"m": {"t": [0]}}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_a_dynamic_member_may_come_before_a_static_one(name):
    mixed = group([member("z", "t", group_instance_id="i"), member("a", "t")], t=1)
    assert assign(name, mixed) == {"z": {"t": [0]}, "a": {}}
    assert assign(name, mixed, "librdkafka") == {"z": {}, "a": {"t": [0]}}


def test_members_in_a_circle_are_left_as_a_merge_sort_leaves_them():
    """By instance id s1 < s2; by member id s2 (a) < d (b) < s1 (c)."""
    s1, s2 = member("c", "t", group_instance_id="1"), member("a", "t", group_instance_id="2")
    d = member("b", "t")
    assert librdkafka.merge_sort([s1, s2, d], librdkafka.compare) == [s1, s2, d]
    assert librdkafka.merge_sort([d, s1, s2], librdkafka.compare) == [d, s1, s2]
    assert librdkafka.merge_sort([s2, d, s1], librdkafka.compare) == [s2, d, s1]


@pytest.mark.parametrize("name", librdkafka.ASSIGNORS)
def test_members_without_topics_get_nothing(name):
    answer = assign(name, group([member("m"), member("n", "t", "gone")], t=2), "librdkafka")
    assert answer == {"m": {}, "n": {"t": [0, 1]}}
    assert assign(name, group([member("m")], t=2), "librdkafka") == {"m": {}}


def test_new_partitions_are_dealt_from_the_last_one_down():
    members = [member("a", "t", owned={"t": [0]}, generation=1), member("b", "t", owned={"t": [1]}, generation=1)]
    grown = group(members, t=4)
    assert assign("cooperative-sticky", grown) == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}}
    assert assign("cooperative-sticky", grown, "librdkafka") == {"a": {"t": [0, 3]}, "b": {"t": [1, 2]}}


def test_topics_come_in_the_order_of_the_brokers_answer():
    """Recorded from Kafka 4.3.0: Metadata for these topics, asked for in the order of their names."""
    names = [f"topic-{i:02d}" for i in range(12)]
    spec = group([member("m", *names)], **dict.fromkeys([*names, "other"], 1))
    told = [topic.name for topic in librdkafka.as_the_leader_sees(spec).topics]
    assert told == [*RECORDED, "other"]
    few = group([member("m", "c", "a"), member("n", "b")], a=1, b=1, c=1)
    assert [topic.name for topic in librdkafka.as_the_leader_sees(few).topics] == ["c", "a", "b"]


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_a_leader_gives_nothing_to_members_whose_subscription_it_cannot_read(assignor):
    """Seen on Kafka 4.3.0 with librdkafka 2.16 and kafka-go 0.4.51, whose subscriptions end before the owned partitions."""
    readable = member("b", "t")
    seen = librdkafka.as_the_leader_sees(
        group([dataclasses.replace(member("a", "t"), says_owned=False), readable], t=3)
    )
    assert assign(assignor, seen, "librdkafka") == {"a": {}, "b": {"t": [0, 1, 2]}}


def test_a_stale_claim_costs_the_owner_a_round():
    """A member that missed a rebalance claims t-0; Java lets its owner keep it, librdkafka waits until it is given up."""
    members = [
        member("a", "t", owned={"t": [0]}, generation=2),
        member("b", "t", owned={"t": [0, 1]}, generation=1),
    ]
    assert assign("cooperative-sticky", group(members, t=2)) == {"a": {"t": [0]}, "b": {"t": [1]}}
    assert assign("cooperative-sticky", group(members, t=2), "librdkafka") == {"a": {}, "b": {"t": [1]}}


def test_what_nobody_is_assigned_goes_back_to_who_claims_it():
    members = [member("a", "t", owned={"t": [0], "gone": [3]}, generation=1)]
    assert assign("cooperative-sticky", group(members, t=1), "librdkafka") == {"a": {"t": [0], "gone": [3]}}


def test_a_misfiled_partition_stays_with_its_owner_too(monkeypatch):
    """b claimed t-0 and t-1 long ago and comes last, so they are looked for with b, not with a who has them. With the
    score fixed, the moves are undone and a has both again."""
    members = [
        member("a", "t", owned={"t": [0, 1, 2, 3]}, generation=2),
        member("c", "t", "u"),
        member("b", "u", "t", owned={"t": [0, 1], "u": [0, 1, 2, 3, 4]}, generation=1),
    ]
    mixed = group(members, t=4, u=5)
    expected = assign("cooperative-sticky", mixed, "librdkafka")
    assert set(expected) == {"a", "b", "c"}
    monkeypatch.setattr(sticky_general, "_unevenness", lambda loads: 0)
    undone = assign("cooperative-sticky", mixed, "librdkafka")
    assert undone["a"] == {"t": [2, 3]}  # t-0 and t-1 are also claimed by b, and wait
    assert undone["b"] == {"u": [0, 1, 2, 3, 4]}


STICKY = "cooperative-sticky"


class Search:
    """What the search for a better balance answers, and how often a group is usual enough to do without it."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.quick = self.searched = 0

    def compare(self, spec):
        """Returns the answer, which must be the same with and without the search."""
        quick, answers = librdkafka.assign_alike, []

        def watched(*arguments):
            answers.append(quick(*arguments))
            return answers[-1]

        with self.monkeypatch.context() as patch:
            patch.setattr(librdkafka, "assign_alike", watched)
            answer = assign(STICKY, spec, "librdkafka")
            patch.setattr(librdkafka, "assign_alike", lambda *_: None)
            searched = assign(STICKY, spec, "librdkafka")
        assert answer == searched, spec
        assert [*map(list, answer.values())] == [*map(sorted, answer.values())]
        if any(each is not None for each in answers):
            self.quick += 1
        else:
            self.searched += 1
        return answer


@pytest.mark.slow
@pytest.mark.timeout(120 + SEQUENCES)
def test_usual_groups_are_assigned_without_a_search_as_the_search_assigns_them(monkeypatch):
    """The groups are made for Java's assignor: statics, racks, stale claims, and topics that are gone are among them."""
    search = Search(monkeypatch)
    for case in every_case(STICKY):
        spec = librdkafka.as_the_leader_sees(group_of(case))
        if any(member.topics for member in spec.members):
            search.compare(spec)
    assert search.quick > SEQUENCES
    assert search.searched > SEQUENCES


@pytest.mark.slow
@pytest.mark.timeout(120 + SEQUENCES)
@pytest.mark.parametrize("is_large", [False, True])
def test_groups_that_are_far_from_even_are_assigned_as_the_search_assigns_them(monkeypatch, is_large):
    """Some members have much, some nothing, and some leave and join. A large answer is in columns."""
    if is_large:
        monkeypatch.setattr(result, "_LARGE", 0)
    search, rng = Search(monkeypatch), random.Random("uneven")
    for _ in range(SEQUENCES):
        names = [f"{rng.choice('abZ')}{number}" for number in range(rng.choice([1, 2, 7]))]
        topics = {name: rng.randint(1, 30) for name in rng.sample(names, len(names))}
        ids = [f"m-{rng.randrange(10**6):06d}-{number}" for number in range(rng.choice([1, 2, 3, 8, 25]))]
        few = rng.sample(ids, rng.randint(1, len(ids)))
        owned = {id_: {} for id_ in ids}
        for name, count in topics.items():
            for partition in range(count):
                if rng.random() < 0.8:
                    owned[rng.choice(few)].setdefault(name, []).append(partition)
        for _ in range(4):
            spec = group([member(id_, *names, owned=owned[id_], generation=1) for id_ in owned], **topics)
            answer = search.compare(librdkafka.as_the_leader_sees(spec))
            owned = {id_: answer.get(id_, {}) for id_ in rng.sample(ids, max(len(ids) - rng.randrange(3), 1))}
    assert search.searched == 0


def test_what_is_not_usual_is_searched(monkeypatch):
    members = [member("a", "t", owned={"t": [0, 1, 2]}, generation=1), member("b", "t")]
    usual = group(members, t=3)
    with_racks = dataclasses.replace(
        usual,
        topics=(TopicSpec(name="t", partitions=3, racks=(("x",), ("x",), ("y",))),),
        members=tuple(dataclasses.replace(each, rack="x") for each in members),
    )
    twice = [dataclasses.replace(each, group_instance_id="i") for each in members]
    search = Search(monkeypatch)
    search.compare(usual)
    assert (search.quick, search.searched) == (1, 0)
    unusual = [
        group([*members, member("c", "t", "u")], t=3, u=1),
        group([*members, member("c", "t", owned={"t": [0]}, generation=1)], t=3),
        group([*members, member("c", "t", owned={"t": [3]}, generation=1)], t=3),
        group([*members, member("c", "t", owned={"gone": [0]}, generation=1)], t=3),
        group(twice, t=3),
        with_racks,
    ]
    for number, spec in enumerate(unusual, start=1):
        search.compare(spec)
        assert (search.quick, search.searched) == (1, number)
    monkeypatch.setattr(librdkafka_alike, "_OVERFLOW", 2 * 3)
    search.compare(usual)
    assert search.searched == len(unusual) + 1
