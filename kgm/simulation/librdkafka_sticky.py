"""`cooperative-sticky` as librdkafka assigns it, when one of its consumers leads the group.

librdkafka ported Java's assignor as it was before Kafka 2.5 brought the one for equal subscriptions, so that a bounce
moves other partitions than under a Java leader. This follows rdkafka_sticky_assignor.c and, for the cooperative part,
rd_kafka_cooperative_protocol_adjust_assignment of librdkafka 2.16, in the order in which its maps are walked: newest
key first (rdmap.c). Racks are left out."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

from kgm.assignors import Assigned, MemberSpec

_Partition = tuple[str, int]
_NO_GENERATION = -1


class _Loads:
    """Consumers with what they have, from the least to the most loaded, equals by name."""

    def __init__(self, assigned: dict[str, list[_Partition]]) -> None:
        self.assigned = assigned
        self.order = sorted((len(mine), consumer) for consumer, mine in assigned.items())

    def count(self, consumer: str) -> int:
        return len(self.assigned[consumer])

    def add(self, consumer: str, partition: _Partition) -> None:
        self._drop(consumer)
        self.assigned[consumer].append(partition)
        insort(self.order, (len(self.assigned[consumer]), consumer))

    def remove(self, consumer: str, partition: _Partition) -> None:
        """Nothing happens when it is not there, as after two claims of which the older was read last."""
        mine = self.assigned[consumer]
        if partition not in mine:
            return
        self._drop(consumer)
        mine.remove(partition)
        insort(self.order, (len(self.assigned[consumer]), consumer))

    def take_out(self, consumer: str) -> list[_Partition]:
        self._drop(consumer)
        return self.assigned.pop(consumer)

    def _drop(self, consumer: str) -> None:
        del self.order[bisect_left(self.order, (len(self.assigned[consumer]), consumer))]


class _Movements:
    """Which partition went from whom to whom, so that a move back takes the partition that came."""

    def __init__(self) -> None:
        self._pairs: dict[_Partition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], list[_Partition]]] = {}

    def move(self, partition: _Partition, old: str, new: str) -> None:
        source = old
        former = self._pairs.pop(partition, None)
        if former is not None:
            self._forget(partition, former)
            source = former[0]
            if source == new:
                return
        pair = (source, new)
        self._pairs[partition] = pair
        self._by_topic.setdefault(partition[0], {}).setdefault(pair, []).append(partition)

    def really_moved(self, partition: _Partition, old: str, new: str) -> _Partition:
        """Instead of `partition`, one of its topic that had come the other way."""
        came = self._by_topic.get(partition[0], {}).get((new, old))
        return came[0] if came else partition

    def _forget(self, partition: _Partition, pair: tuple[str, str]) -> None:
        pairs = self._by_topic[partition[0]]
        pairs[pair].remove(partition)
        if not pairs[pair]:
            del pairs[pair]
        if not pairs:
            del self._by_topic[partition[0]]


class _Builder:
    """One run of the assignor."""

    def __init__(self, members: Sequence[MemberSpec], topics: Mapping[str, int]) -> None:
        self.members = members
        self.potential: dict[str, list[_Partition]] = {member.member_id: [] for member in members}
        self.eligible: dict[_Partition, list[str]] = {}
        # Metadata comes in the order in which the leader asks for topics.
        for topic in dict.fromkeys(topic for member in members for topic in member.topics if topic in topics):
            for member in members:
                if topic in member.topics:
                    for number in range(topics[topic]):
                        partition = (topic, number)
                        self.potential[member.member_id].append(partition)
                        self.eligible.setdefault(partition, []).append(member.member_id)
        self.wanted = {consumer: set(mine) for consumer, mine in self.potential.items()}
        self.alike = len({tuple(members) for members in self.eligible.values()}) <= 1 and len(
            {tuple(mine) for mine in self.potential.values()}
        ) <= 1
        self.owner: dict[_Partition, str] = {}
        self.previous: dict[_Partition, str] = {}
        self.loads = _Loads(self._claimed())
        self.movements = _Movements()
        self.revocation_required = False

    def _claimed(self) -> dict[str, list[_Partition]]:
        """Who has what now: the newest generation counts; two claims of one generation cancel each other."""
        claims: dict[_Partition, list[tuple[int, str]]] = {}
        for member in self.members:
            generation = _NO_GENERATION if member.generation is None else member.generation
            for topic, numbers in member.owned.items():
                for number in numbers:
                    claims.setdefault((topic, number), []).append((generation, member.member_id))
                    self.owner[topic, number] = member.member_id
        current: dict[str, list[_Partition]] = {member.member_id: [] for member in self.members}
        for partition in reversed(claims):
            found = sorted(claims[partition], key=lambda claim: claim[0])
            if len({generation for generation, _ in found}) < len(found):
                self.owner.pop(partition, None)
                continue
            current[found[-1][1]].append(partition)
            if len(found) > 1:
                self.previous[partition] = found[-2][1]
        return current

    def build(self) -> dict[str, list[_Partition]]:
        ordered = self._ordered()
        unassigned = dict.fromkeys(ordered)
        subscribed = {member.member_id: frozenset(member.topics) for member in self.members}
        for consumer, mine in list(self.loads.assigned.items()):
            for partition in list(mine):
                if partition not in self.eligible:
                    self.loads.remove(consumer, partition)
                    self.owner.pop(partition, None)
                elif partition[0] not in subscribed[consumer]:
                    self.loads.remove(consumer, partition)
                    self.revocation_required = True
                else:
                    unassigned.pop(partition, None)
        self._balance(ordered, list(unassigned))
        return self.loads.assigned

    def _ordered(self) -> list[_Partition]:
        """Partitions in the order in which they are looked at: from the most loaded consumer in turn, then the rest."""
        walk = list(reversed(self.eligible))
        if not self.alike:
            return sorted(walk, key=lambda partition: (len(self.eligible[partition]), partition))
        remaining: dict[str, list[_Partition]] = {}
        for consumer, mine in self.loads.assigned.items():
            mine.sort()
            kept = [partition for partition in mine if partition in self.eligible]
            if kept:
                remaining[consumer] = kept
        found: dict[_Partition, None] = {}
        loads = _Loads(remaining)
        while loads.order:
            count, consumer = loads.order[-1]
            if not count:
                loads.take_out(consumer)
                continue
            mine = remaining[consumer]
            chosen = next((partition for partition in mine if partition in self.previous), mine[0])
            loads.remove(consumer, chosen)
            found[chosen] = None
        if not found:
            return sorted(walk)
        return [*found, *(partition for partition in walk if partition not in found)]

    def _balance(self, ordered: list[_Partition], unassigned: list[_Partition]) -> None:
        loads = self.loads
        initializing = not loads.order or loads.order[-1][0] == 0
        for partition in unassigned:
            consumer = self._least_loaded(partition)
            if consumer is not None:
                loads.add(consumer, partition)
                self.owner[partition] = consumer
        ordered = [partition for partition in ordered if len(self.eligible[partition]) > 1]
        unassigned = [partition for partition in unassigned if len(self.eligible[partition]) > 1]
        fixed = {consumer: loads.take_out(consumer) for _, consumer in list(loads.order) if not self._may_change(consumer)}
        before = {consumer: list(mine) for consumer, mine in loads.assigned.items()}
        if loads.order:
            if not self.revocation_required and unassigned:
                self._reassign(unassigned)
            moved = self._reassign(ordered)
            if not initializing and moved and _score(loads.assigned) >= _score(before):
                self.loads = loads = _Loads(before)
        loads.assigned.update(fixed)

    def _least_loaded(self, partition: _Partition) -> str | None:
        return next((who for _, who in self.loads.order if partition in self.wanted[who]), None)

    def _may_change(self, consumer: str) -> bool:
        mine = self.loads.assigned[consumer]
        return len(mine) < len(self.potential[consumer]) or any(len(self.eligible[p]) > 1 for p in mine)

    def _is_balanced(self) -> bool:
        loads = self.loads
        if loads.order[0][0] >= loads.order[-1][0] - 1:
            return True
        if self.alike:
            return False
        owner = {partition: who for who, mine in loads.assigned.items() for partition in mine}
        for count, consumer in loads.order:
            if count == len(self.potential[consumer]):
                continue
            mine = set(loads.assigned[consumer])
            for partition in self.potential[consumer]:
                if partition not in mine and partition in owner and count < loads.count(owner[partition]):
                    return False
        return True

    def _reassign(self, partitions: Iterable[_Partition]) -> bool:
        """Move partitions as long as that evens the loads out; whether any was."""
        loads, performed = self.loads, False
        while True:
            modified = False
            for partition in partitions:
                if self._is_balanced():
                    break
                consumer = self.owner[partition]
                count = loads.count(consumer)
                former = self.previous.get(partition)
                if former is not None and former in loads.assigned and count > loads.count(former) + 1:
                    self._move(partition, consumer, former)
                    performed = modified = True
                elif any(
                    other != consumer and other in loads.assigned and count > loads.count(other) + 1
                    for other in self.eligible[partition]
                ):
                    target = self._least_loaded(partition)
                    assert target is not None
                    self._move(partition, consumer, target)
                    performed = modified = True
            if not modified:
                return performed

    def _move(self, partition: _Partition, old: str, new: str) -> None:
        partition = self.movements.really_moved(partition, old, new)
        old = self.owner[partition]
        self.movements.move(partition, old, new)
        self.loads.add(new, partition)
        self.loads.remove(old, partition)
        self.owner[partition] = new


def _score(assigned: Mapping[str, Sequence[_Partition]]) -> int:
    """How uneven the loads are: the differences of all pairs, added up."""
    counts = sorted(len(mine) for mine in assigned.values())
    return sum(count * (2 * place - len(counts) + 1) for place, count in enumerate(counts))


def assign_cooperatively(members: Sequence[MemberSpec], topics: Mapping[str, int]) -> Assigned:
    """What a librdkafka leader hands out. members: in the order of the JoinGroup reply.

    A partition that another member still claims is left out for one round; one that its claimant may keep because
    nobody is assigned it (its topic is gone) goes back to it."""
    if not members:
        return {}
    wanted = {topic for member in members for topic in member.topics}
    built = _Builder(members, {topic: count for topic, count in topics.items() if topic in wanted}).build()
    new = {partition: consumer for consumer, mine in built.items() for partition in mine}
    claimed = {
        (topic, number): member.member_id
        for member in members
        for topic, numbers in member.owned.items()
        for number in numbers
    }
    given: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in members}
    for partition in sorted(new.keys() | claimed.keys()):
        owner = new.get(partition, claimed.get(partition))
        if owner is not None and claimed.get(partition, owner) == owner:
            given[owner].setdefault(partition[0], []).append(partition[1])
    return given
