"""Groups of the same shape, which differ only in names that make no difference, are played once.

Two things about a name can matter: how it compares with others, because assignors sort; and the hash of a member id,
because brokers and some assignors follow the order of hash maps. So members and topics get names that sort as theirs
do, and only if no hash matters: in classic groups with `range`, which all libraries compute in the order of ids, or
with `roundrobin` in Java and librdkafka; if one member goes, and the assignor gives the others the same under their own
names; and if nothing is assigned at all, because static members are back in time. In the last case other members notice
nothing either, so one of them stands for all; and if every assigned partition exists and has one owner, all that
matters about partitions is how many each restarting member has. That holds as long as no draw has a rebalance; if one
does, the group is played as it is. A group is played like this even if it is the only one of its shape: its prediction
is the same either way."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from kgm.assignors import MemberSpec
from kgm.java.hash_map import DEFAULT_CAPACITY
from kgm.model.assignment import Partitions, count
from kgm.model.client_library import PLAYED
from kgm.simulation.draws.task import DrawTask
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.draw import Draw, TimelineEvent, stable_with
from kgm.simulation.play.holdings import Holding
from kgm.simulation.play.leader import assigned
from kgm.simulation.played_bounce import BounceToPlay, PlayedBounce
from kgm.simulation.simulation import Simulation, never

#: Larger groups rarely have the same shape.
MOST_MEMBERS = 64
#: How many shapes are remembered.
_MOST_SHAPES = 10_000
#: The generation that a group starts with if its own is known: far from the generations of a group that counts from 1
#: again.
_GENERATION = 1_000_000
_COUNTED = re.compile(r"\b(generation|epoch) (\d{7,})\b")
_CLIENT = "client"
_TOPIC = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealNames:
    """Maps the names with which a simulation was played to those of a group. more_generations: what is added to the
    generations that are counted on from the group's first one. bystanders: members that were left out, or had no
    partitions, with their real names. places: the real partitions by the ones that were played in their place."""

    simulation: Simulation
    members: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    more_generations: int = 0
    bystanders: tuple[StartingMember, ...] = ()
    places: Mapping[tuple[str, int], tuple[str, int]] = field(default_factory=dict)

    def _place(self, topic: str, number: int) -> tuple[str, int]:
        return self.places.get((topic, number)) or (self.topics[topic], number)

    def _partitions(self, partitions: Partitions) -> Partitions:
        found: dict[str, list[int]] = {}
        for topic, number in sorted(self._place(topic, n) for topic, numbers in partitions.items() for n in numbers):
            found.setdefault(topic, []).append(number)
        return {topic: tuple(numbers) for topic, numbers in found.items()}

    def typical(self, played: PlayedBounce, *, keeps_holdings: bool) -> Draw:
        """The typical draw with real names. keeps_holdings: see `simulate`."""
        draw = played.typical
        if keeps_holdings:
            task = DrawTask(number=played.number, keeps_holdings=True)
            draw = replace(self.simulation, is_out_of_time=never).play_task(task)
        if not self.members:
            return draw
        member, topic = self.members, self.topics
        final = {member[name]: self._partitions(mine) for name, mine in draw.final_assignment.items()}
        final |= {one.identity: {t: p for t, p in sorted(one.owned.items()) if p} for one in self.bystanders}
        consumed = draw.fewest_consumed
        holdings = []
        for one in draw.holdings:
            name, number = self._place(one.topic, one.partition)
            holdings.append(replace(one, topic=name, partition=number, owner=member[one.owner]))
        if keeps_holdings:
            holdings += _held(self.bystanders, draw.took_ms)
        return replace(
            draw,
            moves=tuple(
                replace(
                    move, topic=topic[move.topic], owner_before=_named(member, move.owner_before),
                    owner_after=_named(member, move.owner_after),
                )
                for move in draw.moves
            ),
            fenced=tuple(sorted(member[name] for name in draw.fenced)),
            final_assignment={name: final[name] for name in sorted(final)},
            timeline=tuple(self._event(event, len(final)) for event in draw.timeline),
            fewest_consumed=None if consumed is None else consumed + sum(count(one.owned) for one in self.bystanders),
            holdings=tuple(sorted(holdings)),
        )  # fmt: skip

    def _event(self, event: TimelineEvent, members: int) -> TimelineEvent:
        detail = _COUNTED.sub(self._counted, event.detail)
        if event.event == "stable":
            detail = stable_with(members)
        return replace(event, member=_named(self.members, event.member), detail=detail)

    def _counted(self, found: re.Match[str]) -> str:
        return f"{found[1]} {int(found[2]) + self.more_generations}"


class PlayedShapes:
    """Results of what was played, by shape."""

    def __init__(self) -> None:
        self._played: dict[bytes, PlayedBounce] = {}

    def __reduce__(self) -> tuple[type["PlayedShapes"], tuple[()]]:
        """Pickles as an empty one: each process remembers its own."""
        return PlayedShapes, ()

    def __len__(self) -> int:
        return len(self._played)

    def play(self, to_play: BounceToPlay) -> tuple[PlayedBounce, RealNames]:
        """Raises TimedOutError if the time is not enough for one draw."""
        simulation = to_play.simulation
        members = simulation.group.members
        if _has_shape(simulation) and simulation.is_quiet and _owns_what_exists(simulation):
            shape, names = _quiet_shape(to_play)
            played = self._of(shape)
            if not (played.has_rebalances or played.depends_on_ids):
                return played, names
        if _may_only_sort(simulation):
            shape, names = _with_plain_names(to_play, members)
            played = self._of(shape)
            if not played.depends_on_ids:
                return played, names
        elif not to_play.versions and _may_be_assigned_alike(simulation):
            shape, names = _with_plain_names(to_play, members)
            played = self._of(shape)
            if not played.depends_on_ids and _is_assigned_alike(simulation, played, names):
                return played, names
        return to_play.play(), RealNames(simulation=simulation)

    def _of(self, shape: BounceToPlay) -> PlayedBounce:
        others = [(each.plan, each.settings) for each in (*shape.versions, *shape.intervals)]
        one = shape.simulation
        what = one.group, one.plan, one.settings, one.seed, one.budget_ms, shape.draws, others
        key = blake2b(repr((what, sorted(shape.assumed_sessions))).encode(), digest_size=16).digest()
        played = self._played.get(key)
        if played is None:
            played = shape.play()
            if not one.is_out_of_time():  # otherwise there may be fewer draws
                if len(self._played) >= _MOST_SHAPES:
                    self._played.clear()
                self._played[key] = played
        return played


def _may_only_sort(simulation: Simulation) -> bool:
    """Whether the assignment depends only on the order of names. New member ids would begin with a client id, so their
    position would depend on its spelling."""
    group, plan = simulation.group, simulation.plan
    bouncing = {*plan.bounce}
    static = {member.group_instance_id is not None for member in group.members}
    names = {name for member in group.members for name in member.possible_assigners(group.assignor)}
    return (
        _has_shape(simulation)
        and group.protocol is GroupProtocol.CLASSIC
        and group.unknown_assignor is None
        and (group.assignor == "range" or (group.assignor == "roundrobin" and names <= PLAYED))
        and len(static) == 1
        and not any(member.group_instance_id is None and member.identity in bouncing for member in group.members)
        and _sort_alike(group.members)
        and all(topic.isascii() for topic in (*group.topics, *(each for one in group.members for each in one.topics)))
    )


def _may_be_assigned_alike(simulation: Simulation) -> bool:
    """Whether a leader assigns, and only once, because one member goes."""
    is_classic = simulation.group.protocol is GroupProtocol.CLASSIC
    is_known = not simulation.group.may_forget
    return is_classic and is_known and _has_shape(simulation) and simulation.only_loses_one


def _is_assigned_alike(simulation: Simulation, played: PlayedBounce, names: RealNames) -> bool:
    """Whether the remaining members are assigned once, and the same as with their own names. The order of their ids in
    a hash map seldom makes a difference to sticky assignors, but it can, so the assignor is run with the real names."""
    if played.rebalances != 1 or not played.are_alike:
        return False
    group = simulation.group
    left = [member for member in group.members if member.identity not in simulation.plan.scale_in]
    found = assigned(
        group.assignor,
        [
            MemberSpec(
                member_id=member.member_id, group_instance_id=member.group_instance_id, rack=member.rack,
                topics=member.topics, owned=member.owned, generation=group.generation, says_owned=member.says_owned,
            )
            for member in left
        ],
        group.topics, group.assigner, group.listing_capacity or DEFAULT_CAPACITY,
        has_scala_maps=simulation.settings.behavior.has_scala_maps,
    )  # fmt: skip
    typical = names.typical(played, keeps_holdings=False)
    return typical.final_assignment == {
        member.identity: {topic: tuple(numbers) for topic, numbers in found[member.member_id].items()}
        for member in left
    }


def _concerned(simulation: Simulation) -> tuple[StartingMember, ...]:
    """The members that restart, and the one among the others whose session ends first."""
    group, bouncing = simulation.group, {*simulation.plan.bounce}
    others = [member for member in group.members if member.identity not in bouncing]
    others.sort(key=lambda member: (member.session_timeout_ms, member.identity))
    return tuple(member for member in group.members if member.identity in bouncing or member in others[:1])


def _quiet_shape(to_play: BounceToPlay) -> tuple[BounceToPlay, RealNames]:
    """The shape in which restarting members have partitions of one topic, and the others have none."""
    simulation = to_play.simulation
    concerned = {member.identity for member in _concerned(simulation)}
    bouncing = {*simulation.plan.bounce}
    ours = sorted((one for one in simulation.group.members if one.identity in bouncing), key=lambda one: one.identity)
    places = [(topic, n) for member in ours for topic, numbers in sorted(member.owned.items()) for n in numbers]
    owned: dict[str, Partitions] = {}
    first = 0
    for member in ours:
        after = first + count(member.owned)
        owned[member.identity] = {_TOPIC: tuple(range(first, after))} if after > first else {}
        first = after

    def merged(one: Simulation) -> Simulation:
        members = tuple(
            replace(
                member, topics=(_TOPIC,), regex=None, named_topics=(), owned=owned.get(member.identity, {}), listed=None
            )
            for member in one.group.members
            if member.identity in concerned
        )
        return replace(one, group=replace(one.group, members=members, topics={_TOPIC: len(places)}, topic_ids={}))

    plain = to_play.with_each(merged)
    shape, names = _with_plain_names(plain, plain.simulation.group.members)
    (topic,) = names.topics
    return shape, replace(
        names,
        bystanders=tuple(member for member in simulation.group.members if member.identity not in bouncing),
        places={(topic, number): place for number, place in enumerate(places)},
    )


def _has_shape(simulation: Simulation) -> bool:
    group, plan = simulation.group, simulation.plan
    has_plan = simulation.settings.plans.of(group.group_id) is not None
    return 0 < len(group.members) <= MOST_MEMBERS and not (plan.scale_out or plan.migrate or has_plan)


def _owns_what_exists(simulation: Simulation) -> bool:
    """Whether each assigned partition exists and has one owner. Otherwise what a member has is not all consumed by it,
    and the number of its partitions does not say how many stop with it."""
    return simulation.consumed_partitions == sum(count(member.owned) for member in simulation.group.members)


def _sort_alike(members: Sequence[StartingMember]) -> bool:
    """Whether members have the same order by instance id as by member id, even if the member ids have different
    endings, whether the library compares UTF-8 or UTF-16."""
    rows = [(member.identity, f"{member.identity}-", member.member_id) for member in members]
    in_order = [sorted(column) for column in zip(*rows, strict=True)]
    return all(name.isascii() for row in rows for name in row) and sorted(rows) == [*zip(*in_order, strict=True)]


def _with_plain_names(to_play: BounceToPlay, kept: Sequence[StartingMember]) -> tuple[BounceToPlay, RealNames]:
    """kept: the members that are played."""
    group = to_play.simulation.group
    ordered = sorted(kept, key=lambda member: member.identity)
    plain = {member.identity: f"member-{number:05}" for number, member in enumerate(ordered)}
    found = {*group.topics}.union(*([*member.topics, *member.owned] for member in ordered))
    topics = {name: f"topic-{number:05}" for number, name in enumerate(sorted(found))}
    more = group.generation - _GENERATION if group.generation_is_known else 0

    def renamed(one: Simulation) -> Simulation:
        return replace(one, group=_group(one.group, plain, topics, more), plan=_plan(one.plan, plain))

    ids = {member.member_id: _member_id(member, plain[member.identity]) for member in ordered}
    shape = replace(
        to_play.with_each(renamed),
        assumed_sessions=frozenset(ids[member_id] for member_id in ids.keys() & to_play.assumed_sessions),
    )
    names = RealNames(
        simulation=shape.simulation,
        members={new: name for name, new in plain.items()},
        topics={new: name for name, new in topics.items()},
        more_generations=more,
        bystanders=tuple(member for member in group.members if member.identity not in plain),
    )
    return shape, names


def _group(
    group: StartingGroup, plain: Mapping[str, str], topics: Mapping[str, str], more_generations: int
) -> StartingGroup:  # fmt: skip
    members = sorted((one for one in group.members if one.identity in plain), key=lambda member: member.identity)
    return replace(
        group,
        group_id="group",
        generation=group.generation - more_generations,
        members=tuple(_member(member, plain[member.identity], topics) for member in members),
        topics={topics[name]: count for name, count in sorted(group.topics.items())},
        topic_ids={topics[name]: topics[name].encode().rjust(16) for name in sorted(group.topic_ids) if name in topics},
        listing_capacity=None if group.listing_capacity is None else 16,
        caveats=(),
    )


def _member(member: StartingMember, name: str, topics: Mapping[str, str]) -> StartingMember:
    return replace(
        member,
        identity=name,
        member_id=_member_id(member, name),
        group_instance_id=None if member.group_instance_id is None else name,
        client_id=_CLIENT,
        client_host="/127.0.0.1",
        topics=tuple(topics[topic] for topic in member.topics),
        owned=_renamed(member.owned, topics),
        listed=None,
        client=replace(member.client, evidence=()),
    )


def _member_id(member: StartingMember, name: str) -> str:
    return name if member.group_instance_id is None else f"{name}-id"


def _plan(plan: Plan, plain: Mapping[str, str]) -> Plan:
    return replace(
        plan,
        bounce=tuple(plain[name] for name in plan.bounce),
        scale_in=tuple(plain[name] for name in plan.scale_in),
        remove=tuple(plain[name] for name in plan.remove),
        units=tuple(tuple(plain[name] for name in unit) for unit in plan.units),
    )


def _renamed(partitions: Partitions, topics: Mapping[str, str]) -> Partitions:
    return {topics[topic]: numbers for topic, numbers in sorted(partitions.items())}


def _held(members: Sequence[StartingMember], until_ms: int) -> list[Holding]:
    """The holdings of members that consume from the start to the end."""
    return [
        Holding(topic=topic, partition=number, from_ms=0, to_ms=until_ms, owner=member.identity)
        for member in members
        for topic, numbers in member.owned.items()
        for number in numbers
    ]


def _named(names: Mapping[str, str], name: str | None) -> str | None:
    return None if name is None else names.get(name, name)
