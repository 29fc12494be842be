"""The assignors again, slow and obvious: pairs of topic and partition, everything looked up again at every step.

Written from the rules, not from the fast versions. Racks are left out; the JVM is the oracle for those."""

from collections import defaultdict

from kgm.java.hash_map import map_order
from kgm.java.hash_set import copied_set_order
from kgm.java.strings import utf16_key

NO_GENERATION = -1


def client_topics(group):
    wanted = {name for member in group.members for name in member.topics}
    return {
        topic.name: topic.partitions
        for topic in sorted(group.topics, key=lambda topic: utf16_key(topic.name))
        if topic.partitions and topic.name in wanted
    }


def answer(group, owner):
    result = {member.member_id: {} for member in group.members}
    for (topic, partition), member_id in sorted(owner.items()):
        result[member_id].setdefault(topic, []).append(partition)
    return result


def sorted_members(members):
    static = [member for member in members if member.group_instance_id is not None]
    dynamic = [member for member in members if member.group_instance_id is None]
    return sorted(static, key=lambda m: utf16_key(m.group_instance_id)) + sorted(
        dynamic, key=lambda m: utf16_key(m.member_id)
    )


def leader_order(group):
    """Members in the order of the leader's hash map, which shows where two members have one instance id."""
    return [group.members[i] for i in map_order([member.member_id for member in group.members])]


def range_(group):
    return blocks(group, sorted_members(leader_order(group)), client_topics(group))


def server_range(group):
    return blocks(group, sorted_members(group.members), {topic.name: topic.partitions for topic in group.topics})


def blocks(group, members, topics):
    owner = {}
    for topic, count in topics.items():
        subscribers = [member for member in members if topic in member.topics]
        next_partition = 0
        for rank, member in enumerate(subscribers):
            size = count // len(subscribers) + (1 if rank < count % len(subscribers) else 0)
            for _ in range(size):
                owner[topic, next_partition] = member.member_id
                next_partition += 1
    return answer(group, owner)


def round_robin(group):
    owner, circle = {}, sorted_members(leader_order(group))
    for topic, count in client_topics(group).items():
        for partition in range(count):
            while topic not in circle[0].topics:
                circle = circle[1:] + circle[:1]
            owner[topic, partition] = circle[0].member_id
            circle = circle[1:] + circle[:1]
    return answer(group, owner)


def claims(group):
    """What members are believed to own, what several claim at the same time, and the members in the order of the hash
    map."""
    members, topics = leader_order(group), client_topics(group)
    owned, last, disputed = {member.member_id: [] for member in members}, {}, set()
    by_id = {member.member_id: member for member in members}
    for member in members:
        mine = NO_GENERATION if member.generation is None else member.generation
        for topic, partitions in member.owned.items():
            for tp in [(topic, p) for p in partitions if p < topics.get(topic, 0)]:
                if tp not in last:
                    owned[member.member_id].append(tp)
                    last[tp] = member.member_id
                    continue
                rival = by_id[last[tp]]
                theirs = rival.generation if rival.names_generation and rival.generation is not None else NO_GENERATION
                if mine >= theirs:
                    if tp in owned[last[tp]]:
                        owned[last[tp]].remove(tp)
                    last[tp] = member.member_id
                if mine == theirs:
                    disputed.add(tp)
                elif mine > theirs:
                    owned[member.member_id].append(tp)
    return members, owned, disputed


def sticky(group):
    return answer(group, sticky_owners(group)[0])


def cooperative_sticky(group):
    owner, held_back = sticky_owners(group)
    return answer(group, {tp: member for tp, member in owner.items() if tp not in held_back})


def sticky_owners(group):
    """Who gets what, and which partitions still have another owner."""
    members, owned, disputed = claims(group)
    with_topics = [set(member.topics) for member in members]
    while with_topics and not with_topics[0]:
        with_topics.pop(0)
    if not client_topics(group):
        return {}, set()
    if all(topics == with_topics[0] for topics in with_topics):
        return even(group, members, owned, disputed)
    owner = mixed(group, members, owned)
    claimed = {m.member_id: {(t, p) for t, ps in m.owned.items() for p in ps} for m in members}
    revoked = {tp for member, tps in claimed.items() for tp in tps if owner.get(tp) != member}
    return owner, {tp for tp, member in owner.items() if tp not in claimed[member] and tp in revoked}


def even(group, members, owned, disputed):
    everything = [(topic, p) for topic, count in client_topics(group).items() for p in range(count)]
    floor, extras = divmod(len(everything), len(members))
    owner, previous = {}, {}
    below, at_floor, big = [], [], 0
    for member in [member.member_id for member in members]:
        mine = sorted((tp for tp in owned[member] if tp not in disputed), key=lambda tp: (tp[1], utf16_key(tp[0])))
        previous.update(dict.fromkeys(mine, member))
        if len(mine) < floor:
            keep = len(mine)
            below.append(member)
        elif len(mine) > floor and big < extras:
            keep = floor + 1
            big += 1
        else:
            keep = floor
            at_floor.append(member)
        owner.update(dict.fromkeys(mine[:keep], member))
    free = [tp for tp in everything if tp not in owner]
    below.sort(key=utf16_key)
    at_floor.sort(key=utf16_key)
    moved = set()
    for tp in free:
        member = below.pop(0) if below else at_floor.pop(0)
        owner[tp] = member
        if previous.get(tp, member) != member or tp in disputed:
            moved.add(tp)
        load = sum(o == member for o in owner.values())
        if load < floor:
            below.append(member)
        elif load == floor:
            at_floor.append(member)
    return owner, moved


class Mixed:
    """A group with unequal subscriptions while it is evened out."""

    def __init__(self, members, topics):
        self.topics = topics
        self.wants = {m.member_id: [t for t in topics if t in m.topics] for m in members}
        self.owner = {}
        self.moves = defaultdict(list)  # (topic, from, to): partitions, in the order moved

    def load(self, member):
        return sum(owner == member for owner in self.owner.values())

    def by_load(self):
        return sorted(self.wants, key=lambda member: (self.load(member), utf16_key(member)))

    def first_taker(self, topic):
        return next(member for member in self.by_load() if topic in self.wants[member])

    def is_balanced(self):
        loads = {member: self.load(member) for member in self.wants}
        return not any(
            loads[self.owner[topic, p]] > loads[member] + 1
            for member, wanted in self.wants.items()
            for topic in wanted
            for p in range(self.topics[topic])
        )

    def score(self, members):
        loads = [self.load(member) for member in members]
        return sum(abs(a - b) for i, a in enumerate(loads) for b in loads[:i])


def mixed(group, members, owned):
    """The assignment, without exchanging partitions that would trade places; cases in which that happens are left to
    the JVM."""
    topics = client_topics(group)
    state = Mixed(members, topics)
    was_revoked = False
    for member, tps in owned.items():
        for tp in tps:
            if tp[0] in state.wants[member]:
                state.owner[tp] = member
            else:
                was_revoked = True
    interest = {topic: sum(topic in wanted for wanted in state.wants.values()) for topic in topics}
    ordered = sorted(topics, key=lambda topic: (interest[topic], utf16_key(topic)))
    everything = [(topic, p) for topic in ordered for p in range(topics[topic])]
    free = [tp for tp in everything if tp not in state.owner]
    is_new = not state.owner
    for tp in free:
        state.owner[tp] = state.first_taker(tp[0])
    before = dict(state.owner)
    newest = max((m.generation for m in members if m.generation is not None), default=NO_GENERATION)
    older = {}
    for member in members:
        generation = NO_GENERATION if member.generation is None else member.generation
        for tp in [(t, p) for t, ps in member.owned.items() for p in ps]:
            if generation < newest and (tp not in older or generation > older[tp][0]):
                older[tp] = generation, member.member_id
    movable = [tp for tp in everything if interest[tp[0]] > 1]
    if not was_revoked:
        even_out(state, [tp for tp in free if tp in set(movable)], older)
    if even_out(state, movable, older) and not is_new:
        after = state.score(state.wants)
        now, state.owner = state.owner, before
        if after < state.score(state.wants):
            state.owner = now
    return state.owner


class TradesPlaces(Exception):
    """A partition of the same topic has gone the other way, or this one has moved already: beyond the naive version."""


def even_out(state, tps, older):
    moved_any = False
    while True:
        moved = False
        for tp in tps:
            if state.is_balanced():
                break
            giver = state.owner[tp]
            taker = older[tp][1] if tp in older else None
            if taker is None or state.load(giver) <= state.load(taker) + 1:
                taker = state.first_taker(tp[0])
                if state.load(giver) <= state.load(taker) + 1:
                    continue
            if (tp[0], taker, giver) in state.moves or any(tp in moved for moved in state.moves.values()):
                raise TradesPlaces
            state.moves[tp[0], giver, taker].append(tp)
            state.owner[tp] = taker
            moved = moved_any = True
        if not moved:
            return moved_any


def uniform(group):
    """The coordinator's uniform assignor. The order of members and topics matters."""
    wants = [set(member.topics) for member in group.members]
    topics = {t.name: t.partitions for t in group.topics if any(t.name in wanted for wanted in wants)}
    owner = {}
    for member, wanted in zip(group.members, wants, strict=True):
        for topic, partitions in member.owned.items():
            for tp in [(topic, p) for p in partitions if topic in wanted and p < topics[topic]]:
                if tp not in owner:
                    owner[tp] = member.member_id
    if all(wanted == wants[0] for wanted in wants):
        return answer(group, uniform_alike(group, topics, owner))
    return answer(group, UniformMixed(group, topics, owner).build())


def uniform_alike(group, topics, owner):
    """Each member keeps up to its quota; the rest fills up the members that are below theirs."""
    free = [(topic, p) for topic, count in topics.items() for p in range(count) if (topic, p) not in owner]
    floor, extras = divmod(sum(topics.values()), len(group.members))
    unfilled = []
    for position, member in enumerate(group.members):
        takes_extra = extras > 0
        room = floor + 1 if takes_extra else floor
        for topic in topics:
            claimed = dict.fromkeys(member.owned.get(topic, ()))
            mine = [p for p in claimed if owner.get((topic, p)) == member.member_id]
            if len(mine) > room:
                mine = copied_set_order(mine)
            for p in mine[room:]:
                del owner[topic, p]
                free.append((topic, p))
            room -= len(mine[:room])
        followers = len(group.members) - position - 1
        if room and takes_extra and followers >= extras:
            room, takes_extra = room - 1, False
        if takes_extra:
            extras -= 1
        if room:
            unfilled.append((member.member_id, room))
    for member_id, room in unfilled:
        for _ in range(room):
            owner[free.pop(0)] = member_id
    assert not free
    return owner


class UniformMixed:
    """Free partitions to the least loaded; then from the most to the least loaded, topic by topic."""

    def __init__(self, group, topics, owner):
        self.topics = topics
        self.owner = owner
        self.subscribers = {t: [m.member_id for m in group.members if t in m.topics] for t in topics}
        self.members = [member.member_id for member in group.members]

    def load(self, member):
        return sum(owner == member for owner in self.owner.values())

    def build(self):
        def demand(topic):
            return -self.topics[topic] / len(self.subscribers[topic]), len(self.subscribers[topic])

        ordered = sorted(self.topics, key=demand)
        for topic in ordered:
            line = sorted(self.subscribers[topic], key=self.load)
            for p in range(self.topics[topic]):
                if (topic, p) not in self.owner:
                    self.owner[topic, p] = min(line, key=self.load)
        unchanged_since = None
        for topic in [topic for topic in ordered if len(self.subscribers[topic]) > 1] * 16:
            if topic == unchanged_since:
                break
            if self.even_out(topic) or unchanged_since is None:
                unchanged_since = topic
        return self.owner

    def even_out(self, topic):
        """Moves partitions of one topic; a member that has none of it to give is skipped. Returns whether any moved."""
        line = sorted(self.subscribers[topic], key=self.load)
        givers = list(line)
        held = {member: [p for p in range(self.topics[topic]) if self.owner[topic, p] == member] for member in line}
        moved = False
        if self.load(line[-1]) - self.load(line[0]) <= 1:
            return False
        while givers:
            most = max(self.load(member) for member in givers)
            giver = max((i for i, member in enumerate(givers) if self.load(member) == most))
            if not held[givers[giver]]:
                givers[giver] = givers[-1]  # the last one takes its place
                givers.pop()
                continue
            taker = min(line, key=self.load)
            if most - self.load(taker) <= 1:
                break
            self.owner[topic, held[givers[giver]].pop()] = taker
            moved = True
        return moved
