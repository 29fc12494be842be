"""Everything that is played for one prediction, and the combined result."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kgm.assignors import is_known
from kgm.coordinator.contract.behavior import behavior_of
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.client_library import FRANZ_GO
from kgm.model.errors import TimedOutError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.client_library import HEARTBEAT_INTERVAL_MS, STICKY, longest_heartbeat_interval_ms
from kgm.simulation.plan.played_settings import broker_settings_of, heartbeat_interval_within
from kgm.simulation.plan.starting_group import StartingGroup
from kgm.simulation.plan.votes import may_lose_votes
from kgm.simulation.play.draw import SILENT_CLOSE, Draw
from kgm.simulation.report.caveats import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    MIGRATION_POLICY,
    Caveats,
    assumed_consumer_settings,
    caveats,
    session_caveats,
)
from kgm.simulation.report.prediction import Ranges, TimeRange
from kgm.simulation.report.ranges import ranges_of, stopped_range_ms, typical_of
from kgm.simulation.simulation import FEWEST_DRAWS, Simulation

#: The migration policies besides the default one.
_OTHER_POLICIES = ("upgrade", "downgrade", "disabled")
#: A session timeout that is played for members of a consumer group whose own is not known: as short as the default
#: minimum for those of a classic group.
_SHORT_SESSION_MS = 6_000
_COOPERATIVE = "cooperative-sticky"
#: Of how many members each is played as the only one that asks for the broker's assignor.
_MOST_VOTERS = 3
#: One in so many draws is played again with each other interval that members or the broker may have.
_SHARE_OF_OTHERS = 3
#: The fewest random draws that are played with each other library that members may run on.
_ROUND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedBounce:
    """The outcome of all draws.

    typical, number: the draw that is nearest to the median, and its number. ranges, stopped_range_ms, draws: over all
    draws. rebalances: of the first draw. are_alike: whether the draws differ only in times. has_rebalances: whether any
    of them has a rebalance or another generation. is_certain: whether only times can differ. is_open,
    is_left_to_chance: why even draws that agree prove nothing. depends_on_version: whether another version that the
    broker may run behaves differently. depends_on_policy: whether members migrate, and the broker's policy for that is
    not known. depends_on_votes: whether the broker may change to its default assignor, because it is not known which
    members ask for the present one. depends_on_intervals: whether intervals of the members or the broker are not
    known, and others have other outcomes. left_out: how many processes end, in one draw, because the broker takes
    them only after a session has ended, and may be started again later. caveats: without the group's own.
    session_caveats: about a session timeout that had to be assumed. depends_on_ids: whether member ids were drawn, or
    members do something for which the caveats name them."""

    typical: Draw
    number: int
    ranges: Ranges
    stopped_range_ms: TimeRange
    draws: int
    rebalances: int
    are_alike: bool
    has_rebalances: bool
    is_certain: bool
    is_open: bool
    is_left_to_chance: bool
    depends_on_version: bool
    depends_on_policy: bool
    depends_on_votes: bool
    depends_on_intervals: bool
    left_out: int
    caveats: Caveats
    session_caveats: tuple[str, ...]
    depends_on_ids: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BounceToPlay:
    """draws: how often to play what is random, at most. assumed_sessions: the member ids of a classic group whose
    session timeout is not known. versions: the same simulation with each other version that the broker may run, if its
    coordinator behaves differently. policies, intervals: the same for each other migration policy that the broker may
    have, and for intervals that the members or the broker may have."""

    simulation: Simulation
    draws: int
    assumed_sessions: frozenset[str]
    versions: tuple[Simulation, ...]
    policies: tuple[Simulation, ...] = ()
    intervals: tuple[Simulation, ...] = ()

    @classmethod
    def of(cls, snapshot: GroupSnapshot, plan: Plan, simulation: Simulation, draws: int) -> "BounceToPlay":
        """simulation: the one of this group and this plan."""
        unknown = {one.member_id for one in snapshot.members if snapshot.session_of(one) is None}
        is_assumed = simulation.plan.bounce and simulation.plan.what_if.session_timeout_ms is None
        return cls(
            simulation=simulation,
            draws=draws,
            assumed_sessions=frozenset(unknown) if is_assumed else frozenset(),
            versions=tuple(_with_other_versions(snapshot, plan, simulation)),
            policies=_with_other_policies(snapshot, simulation),
            intervals=_with_other_intervals(snapshot, simulation),
        )

    def with_each(self, changed: Callable[[Simulation], Simulation]) -> "BounceToPlay":
        """The same with each simulation changed."""
        return replace(
            self,
            simulation=changed(self.simulation),
            versions=tuple(map(changed, self.versions)),
            policies=tuple(map(changed, self.policies)),
            intervals=tuple(map(changed, self.intervals)),
        )

    def play(self) -> PlayedBounce:
        """Raises TimedOutError if the time is not enough for one draw."""
        simulation = self.simulation
        group = simulation.group
        drawn = simulation.play(self.draws)
        extreme = simulation.play_extreme(simulation.counts_as(drawn, self.draws))
        extreme += simulation.play_rare(drawn, extreme)
        shorter = _with_shorter_session(simulation, self.assumed_sessions, drawn)
        led = _led_by_each(simulation, drawn)
        deleted = _when_deleted(simulation, (*drawn, *extreme))
        versions = _of_other_brokers(self.versions, drawn, max(FEWEST_DRAWS, len(drawn)))
        refusing = _of_other_brokers(self.policies, drawn, max(FEWEST_DRAWS, len(drawn) // len(_OTHER_POLICIES)))
        at_other_intervals = self._at_other_intervals(drawn)
        others = (*versions, *refusing, *at_other_intervals, *_of_other_voters(simulation, drawn))
        extremes = (*extreme, *shorter, *led, *deleted, *others, *_of_other_clients(simulation, drawn))
        every = (*drawn, *extremes)
        is_certain = simulation.is_certain(drawn[0])
        number = typical_of(drawn)
        return PlayedBounce(
            typical=drawn[number],
            number=number,
            ranges=ranges_of(drawn, extremes),
            stopped_range_ms=stopped_range_ms(drawn, extremes),
            draws=len(every),
            rebalances=drawn[0].rebalances,
            are_alike=all(draw.without_times == drawn[0].without_times for draw in every),
            has_rebalances=any(draw.rebalances or draw.generations for draw in every),
            is_certain=is_certain,
            is_open=any(draw.has_random_ids or draw.follows_map_order or not draw.became_stable for draw in every),
            is_left_to_chance=_is_left_to_chance(simulation, drawn),
            depends_on_version=bool(versions),
            depends_on_policy=bool(self.policies),
            depends_on_votes=_may_lose_votes(simulation, drawn),
            left_out=max(draw.left_out for draw in every) if simulation.plan.retry_every_ms is None else 0,
            depends_on_intervals=bool(_other_than(drawn, lambda: at_other_intervals)),
            caveats=caveats(group, simulation.plan, simulation.settings, (*drawn, *extreme), is_certain=is_certain),
            session_caveats=session_caveats(shorter, _shortest_session_ms(simulation)),
            depends_on_ids=any(map(_depends_on_ids, every)),
        )

    def _at_other_intervals(self, drawn: Sequence[Draw]) -> Sequence[Draw]:
        """Draws at each other interval, also if only times differ: partitions stop for longer. None if nothing is
        assigned: then intervals do not matter."""
        if not any(draw.rebalances or draw.generations for draw in drawn):
            return ()
        share = len(drawn) // _SHARE_OF_OTHERS
        return [draw for other in self.intervals for draw in _played_with(other, other.group, share)]


def _depends_on_ids(draw: Draw) -> bool:
    events = (event.event == "refused" or event.detail == SILENT_CLOSE for event in draw.timeline)
    return draw.has_random_ids or any(events)


def _with_other_versions(snapshot: GroupSnapshot, plan: Plan, simulation: Simulation) -> list[Simulation]:
    """The simulation with each other version whose coordinator behaves differently, except versions that cannot have
    the group or carry out the plan."""
    behaviors = {behavior_of(version): version for version in reversed(simulation.plan.other_versions)}
    behaviors.pop(simulation.settings.behavior, None)
    others = []
    for version in behaviors.values():
        with contextlib.suppress(UsageError):
            other = Simulation.of(snapshot, replace(plan, kafka_version=version, other_versions=()), simulation.seed)
            others.append(simulation.like(other))
    return others


def _with_other_policies(snapshot: GroupSnapshot, simulation: Simulation) -> tuple[Simulation, ...]:
    """The simulation with each other migration policy, if members migrate and the broker's policy is not known. A
    group without a coordinator is made up: its broker has Kafka's defaults."""
    plan = simulation.plan
    if not plan.migrate or MIGRATION_POLICY in plan.settings or snapshot.coordinator is None:
        return ()
    settings = simulation.settings
    return tuple(
        replace(simulation, settings=replace(settings, group_consumer_migration_policy=policy))
        for policy in _OTHER_POLICIES
    )


def _with_other_intervals(snapshot: GroupSnapshot, simulation: Simulation) -> tuple[Simulation, ...]:
    """The simulation with other intervals where those of the members or the broker are not known. A group without a
    coordinator is made up: it has the usual ones."""
    if snapshot.coordinator is None:
        return ()
    plan = simulation.plan
    if simulation.group.protocol is GroupProtocol.CLASSIC and not plan.migrate:
        longest_ms = longest_heartbeat_interval_ms(simulation.group.sessions_ms()[1])
        if plan.heartbeat_interval_ms is not None or longest_ms <= HEARTBEAT_INTERVAL_MS:
            return ()
        group = _with_longest_intervals(simulation.group)
        return (replace(simulation, group=group, plan=replace(plan, heartbeat_interval_ms=longest_ms)),)
    return tuple(
        replace(simulation, settings=settings)
        for settings in _with_extreme_intervals(
            simulation.settings,
            assumed_consumer_settings(snapshot, simulation.group, plan, simulation.settings),
        )
    )


def _with_longest_intervals(group: StartingGroup) -> StartingGroup:
    """The group in which each member heartbeats as seldom as its own session timeout makes likely."""
    shortest_ms, longest_ms = group.sessions_ms()
    if shortest_ms == longest_ms:
        return group
    members = tuple(
        replace(one, heartbeat_interval_ms=longest_heartbeat_interval_ms(one.session_timeout_ms))
        for one in group.members
    )
    return replace(group, members=members)


def _with_extreme_intervals(settings: BrokerSettings, assumed: Sequence[str]) -> Iterator[BrokerSettings]:
    """The shortest and the longest intervals between target assignments (KIP-1263) and between heartbeats that a broker
    allows by default, and with this session timeout."""
    if ASSIGNMENT_INTERVAL in assumed:
        for interval_ms in (
            settings.group_consumer_min_assignment_interval_ms, settings.group_consumer_max_assignment_interval_ms
        ):  # fmt: skip
            yield replace(settings, group_consumer_assignment_interval_ms=interval_ms)
    if HEARTBEAT_INTERVAL in assumed:  # the default one is the shortest
        longest_ms = heartbeat_interval_within(
            settings.group_consumer_session_timeout_ms, settings.group_consumer_max_heartbeat_interval_ms
        )
        yield replace(settings, group_consumer_heartbeat_interval_ms=longest_ms)


def _shortest_session_ms(simulation: Simulation) -> int:
    """The shortest session timeout of a member: of a classic group, the broker's minimum."""
    is_classic = simulation.group.protocol is GroupProtocol.CLASSIC
    return simulation.settings.group_min_session_timeout_ms if is_classic else _SHORT_SESSION_MS


def _with_shorter_session(
    simulation: Simulation, assumed: frozenset[str], drawn: Sequence[Draw]
) -> Sequence[Draw]:  # fmt: skip
    """A few draws with the shortest session timeout that the broker allows, if the session timeout of members had to be
    assumed: no API returns that of a classic group, and that of a consumer group only to who may read the
    group's settings. No draws if the outcomes are the same as in `drawn`."""
    if not assumed:
        return ()
    shortest_ms = _shortest_session_ms(simulation)
    members = tuple(
        replace(member, session_timeout_ms=shortest_ms) if member.member_id in assumed else member
        for member in simulation.group.members
    )
    other = replace(simulation, group=replace(simulation.group, members=members))
    if other.group.protocol is GroupProtocol.CONSUMER:  # the broker sets it
        other = replace(other, settings=broker_settings_of(other.group, other.plan))
    return _other_than(drawn, lambda: other.play(FEWEST_DRAWS))


def _led_by_each(simulation: Simulation, drawn: Sequence[Draw]) -> Sequence[Draw]:
    """A draw led by each library, if members of more than one can lead (no Kafka API returns which member does),
    however rare one of the libraries is. No draws if the outcomes are the same as in `drawn`."""
    has_no_leader = simulation.group.protocol is GroupProtocol.CONSUMER
    if has_no_leader or len(simulation.assigners) == 1 or not any(draw.rebalances for draw in drawn):
        return ()
    return _other_than(drawn, simulation.play_led)


def _when_deleted(simulation: Simulation, played: Sequence[Draw]) -> Sequence[Draw]:
    """A draw in which the broker deletes the group while it is empty, if it may become empty and may have no committed
    offsets; brokers look for such groups every ten minutes. No draw if one in `played` had the same outcome."""
    if simulation.group.has_offsets or not any(draw.was_empty for draw in played):
        return ()
    return _other_than(played, simulation.play_deleted)


def _of_other_brokers(brokers: Sequence[Simulation], drawn: Sequence[Draw], draws: int) -> Sequence[Draw]:
    """So many draws with each other broker that it may be. No draws if the outcomes are the same as in `drawn`."""
    others: list[Draw] = []
    for other in brokers:
        with contextlib.suppress(TimedOutError):
            others += other.play(draws)
    return _other_than(drawn, lambda: others)


def _may_lose_votes(simulation: Simulation, drawn: Sequence[Draw]) -> bool:
    """Whether members leave a consumer group that may change to the broker's default assignor without them."""
    group, plan = simulation.group, simulation.plan
    default = simulation.settings.default_assignor
    is_open = group.protocol is GroupProtocol.CONSUMER and group.unknown_assignor is None
    is_open = is_open and may_lose_votes(group.assignor, default, has_known_votes=group.has_known_votes)
    return is_open and bool(plan.named) and any(draw.rebalances or draw.generations for draw in drawn)


def _of_other_voters(simulation: Simulation, drawn: Sequence[Draw]) -> Sequence[Draw]:
    """Draws in which only members that the plan names ask for the present assignor: each of the first few, and all of
    them. No draws if that is known, or if the outcomes are the same as in `drawn`."""
    if not _may_lose_votes(simulation, drawn):
        return ()
    named = simulation.plan.named
    sets = dict.fromkeys((frozenset(named), *(frozenset((name,)) for name in named[:_MOST_VOTERS])))
    others: list[Draw] = []
    for voters in sets:
        group = replace(simulation.group, voters=voters)
        others += _played_with(simulation, group, len(drawn) // len(sets))
    return _other_than(drawn, lambda: others)


def _of_other_clients(simulation: Simulation, drawn: Sequence[Draw]) -> Sequence[Draw]:
    """The same number of draws with the other libraries that members may run on, if several are possible; with members
    that report what they had although they are played as forgetting it, or the reverse, if they may forget it; with a
    cooperative assignor in place of one that kgm does not know; and with other assignors that the members list. No
    draws if the outcomes are the same as in `drawn`."""
    group = simulation.group
    others: list[Draw] = []
    libraries = group.other_libraries
    for library in libraries:
        others += _played_with(simulation, group.as_of(library), len(drawn) // len(libraries))
    if group.may_forget and group.assignor == STICKY:
        others += _played_with(simulation, replace(group.as_of(FRANZ_GO), may_forget=False), len(drawn))
    elif group.may_forget and any(draw.rebalances for draw in drawn):
        for some in group.may_give_up:
            others += _played_with(simulation, replace(group, giving_up=some), len(drawn))
    if group.unknown_assignor is not None and group.protocol is GroupProtocol.CLASSIC:
        others += _played_with(simulation, replace(group, assignor=_COOPERATIVE), len(drawn))
    if any(draw.rebalances for draw in drawn):
        for name in filter(is_known, group.other_assignors):
            others += _played_with(simulation, replace(group, assignor=name), len(drawn))
    return _other_than(drawn, lambda: others)


def _played_with(simulation: Simulation, group: StartingGroup, draws: int) -> Sequence[Draw]:
    """Plays the group with at least `_ROUND` random draws, and directed ones; fewer and none if the group is one of
    many (`budget_ms`)."""
    other, is_one = replace(simulation, group=group), simulation.budget_ms is None
    most = max(_ROUND if is_one else FEWEST_DRAWS, draws)
    with contextlib.suppress(TimedOutError):
        return [*other.play(most), *(other.play_extreme(most) if is_one else ())]
    return ()


def _other_than(drawn: Sequence[Draw], play: Callable[[], Sequence[Draw]]) -> Sequence[Draw]:
    """The draws that `play` returns, unless all of them had the same outcomes as `drawn`. No draws if the time is
    over."""
    try:
        played = play()
    except TimedOutError:
        return ()
    seen = {draw.without_times for draw in drawn}
    return () if all(draw.without_times in seen for draw in played) else played


def _is_left_to_chance(simulation: Simulation, drawn: Sequence[Draw]) -> bool:
    """Whether heartbeats may be due exactly when they make a difference, and draws of that would cost too much."""
    has_rebalances = any(draw.rebalances for draw in drawn)
    return has_rebalances and simulation.may_be_noticed_in_between and not simulation.is_small
