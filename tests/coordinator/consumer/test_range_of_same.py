"""The targets of `range` for members with the same subscription are those of the assignor, asked with everything."""

from __future__ import annotations

import random

import pytest

from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec, by_identity
from kgm.assignors.server.broker_view import in_broker_order
from kgm.assignors.server.range import assign_server_range
from kgm.coordinator.consumer import records, target, target_order
from kgm.coordinator.groups import targets
from tests.coordinator.consumer.harness import Consumers


def asked(group, updated, image, listed):
    """The answer of the assignor."""
    replaced = None if updated.group_instance_id is None else group.static_ids.get(updated.group_instance_id)
    order = target._in_map_order(group, updated.member_id, replaced)
    members, names_of = {**group.members, updated.member_id: updated}, target._Subscriptions(group, image)
    specs = [
        MemberSpec(
            member_id=each, group_instance_id=members[each].group_instance_id,
            topics=names_of(members[each], listed if each == updated.member_id else None),
        )
        for each in order
    ]  # fmt: skip
    names, named = by_identity(specs)[0].topics, names_of.count(members[order[0]])
    specs = [MemberSpec(member_id=s.member_id, group_instance_id=s.group_instance_id, topics=names) for s in specs]
    topics = in_broker_order(
        [image.by_name[name] for name in names], lambda topic: topic.topic_id, is_homogeneous=True, named=named
    )
    rows = [TopicSpec(name=topic.name, partitions=topic.partitions) for topic in topics]
    answer = assign_server_range(GroupSpec(members=tuple(specs), topics=tuple(rows)))
    ids = {name: image.by_name[name].topic_id for name in names}
    found = {each: {ids[name]: p for name, p in answer[each].items()} for each in order}
    as_listed = found
    if target_order.share_buckets(ids.values()):
        as_listed = {each: target_order.of_range(row, [*ids.values()], len(names)) for each, row in found.items()}
    return [(each, [*found[each].items()], [*as_listed[each].items()]) for each in order]


@pytest.fixture
def compared(monkeypatch):
    """How many target assignments were computed both ways, and were equal; and how many of them with a member that got
    nothing, and with topics that share a bucket."""
    seen = []
    real = target.range_changes

    def both(group, updated, known_as, image, listed):
        changed, aim = real(group, updated, known_as, image, listed)
        wanted = asked(group, updated, image, listed)
        assert [*aim.items()] == next(row for each, row, _ in wanted if each == updated.member_id)
        known = {each: group.targets.get(known_as if each == updated.member_id else each) for each, *_ in wanted}
        expected = [
            records.target_record("g", each, dict(listing)) for each, row, listing in wanted if known[each] != dict(row)
        ]
        assert [*changed] == expected
        assert (len(changed), changed[:3]) == (len(expected), expected[:3])
        for record in expected:
            value = {row.topic_id: tuple(row.partitions) for row in record.value.topic_partitions}
            row, unusual = target_order.replayed(value)
            spans = changed.spans[record.key.member_id]
            assert [*targets.spread(changed.topics, spans).items()] == [*row.items()]
            assert not unusual
        ids = [topic.topic_id for topic in image.by_id.values()]
        seen.append((any(not row for _, row, _ in wanted), target_order.share_buckets(ids)))
        return changed, aim

    monkeypatch.setattr(target, "range_changes", both)
    return seen


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(20))
def test_members_come_and_go(compared, seed):
    """Static ones and dynamic ones, fewer and more than there are partitions; some name a topic that does not exist."""
    r = random.Random(seed)
    names = [*"abcdefghijklmnopqrs"[: r.choice([1, 2, 3, 18])]]
    topics = {name: r.choice([1, 5, 40]) for name in names}
    h = Consumers(topics=topics)
    named = [*names, "missing"] if seed % 3 == 0 else names
    alive, made = [], 0
    for _ in range(60):
        if len(alive) < 4 or (len(alive) < 30 and r.random() < 0.5):
            made += 1
            static = {"instance": f"app-{made % 7}-{made}"} if r.random() < 0.3 else {}
            h.beat(f"m{made * 37 % 101}", names=r.sample(named, len(named)), server_assignor="range", **static)
            alive.append(f"m{made * 37 % 101}")
        else:
            gone = alive.pop(r.randrange(len(alive)))
            member = h.engine.consumer_group("g").members[gone]
            h.beat(gone, epoch=-1, **({"instance": member.group_instance_id} if member.group_instance_id else {}))
    assert len(compared) > 20
    assert any(has_nothing for has_nothing, _ in compared) or max(topics.values()) > 1
    assert len(names) not in (1, 18) or {shares for _, shares in compared} == {len(names) == 18}


def test_who_has_nothing_of_a_topic_that_grows_has_the_same_target(compared):
    """There are more members than partitions, before and after."""
    h = Consumers(topics={"a": 2, "b": 3})
    members = [f"m{number}" for number in range(5)]
    for each in members:
        h.beat(each, names=["a", "b"], server_assignor="range")
    h.topics({"a": 3, "b": 4})
    done = len(compared)
    for each in members:
        h.beat(each, epoch=h.member(each).member_epoch)
    assert len(compared) > done
