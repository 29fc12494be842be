"""Plays a recorded group once on the coordinator engine, in virtual time."""

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kgm.clients.recognition import recognise_by_ids
from kgm.coordinator.contract.outcome import Producer
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.assignment import Partitions, count
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.records.record import Record
from kgm.simulation.plan.bounce_plan import Stop
from kgm.simulation.plan.client_library import HEARTBEAT_INTERVAL_MS, played_as
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.client_profiles import ClientProfile
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.ownership_ledger import OwnershipLedger
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.seed_records import load_group, scripted_member, seed_records
from kgm.simulation.play.timing import DrawTiming
from kgm.simulation.play.world import LEAVE_VERSION, START_MS, Client, LeaveSender, World
from kgm.simulation.replay.recorded_group import MemberRun, Moment, RecordedProcess, ReplayedGroup, RunEnd

#: How long the group is watched after the last thing that was done to it, in addition to a session.
_AFTERWARDS_MS = 30_000
#: The time between a request that a process sends and the record that shows it.
_SPARE_MS = 150
#: How long after others have joined a session expires in the same rebalance.
_EXPIRY_AFTER_MS = 100
#: After how long a supervisor restarts a process that the group has refused.
_RETRY_MS = 5_000
#: A limit, because an impossible history may keep members joining forever.
_REQUESTS_PER_RUN = 4_000


class Spacing(enum.Enum):
    """How far apart things happened."""

    AS_RECORDED = enum.auto()
    """Everything that led to the same rebalance happened at the same time."""
    APART = enum.auto()
    """The things that led to the same rebalance happened one after the other."""
    CLOSE = enum.auto()
    """Whatever led to a rebalance happened as soon as possible after whatever led to the one before."""
    ANY = enum.auto()
    """Each thing happened at its own random time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDraw:
    """One choice for everything that the records leave open.

    heartbeat_interval_ms: how soon members learn of a rebalance. initial_delay_ms: the broker's
    `group.initial.rebalance.delay.ms`. lag: how long before a process stopped its last heartbeat was, from 0 to 1
    heartbeat interval; None: drawn for each process. unsure_expired: whether processes whose kind of end is not known
    left (False) or expired (True); None: drawn for each process."""

    seed: str
    heartbeat_interval_ms: int
    initial_delay_ms: int
    lag: float | None = None
    spacing: Spacing = Spacing.AS_RECORDED
    unsure_expired: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedRecord:
    """A record that the coordinator wrote, and when, in ms since 1970."""

    timestamp_ms: int
    record: Record


class _PromptTiming(DrawTiming):
    """The records show when processes joined, so what they did before that does not matter."""

    def start_ms(self, profile: ClientProfile, *, may_be_slow: bool) -> float:  # noqa: ARG002
        return self._chance.random()


class _CountingLedger(OwnershipLedger):
    """drops: how often a member stopped consuming a partition."""

    drops = 0

    def drop(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        self.drops += count(partitions)
        super().drop(identity, partitions, now_ms)


class _RecordingWorld(World):
    """A world whose records are kept."""

    def __init__(self, group: StartingGroup, settings: BrokerSettings, draw: ReplayDraw, observer: "Replay") -> None:
        super().__init__(
            group, settings, draw.seed, heartbeat_interval_ms=draw.heartbeat_interval_ms, observer=observer
        )
        self.timing = _PromptTiming(self.chance, draw.heartbeat_interval_ms, group.sessions_ms()[0])
        self.ledger = self.counting = _CountingLedger(group.topics, group.assignment, START_MS)
        self.records: list[tuple[float, Record]] = []

    def _appended(self, records: Sequence[Record], producer: Producer | None = None) -> None:
        self.records += [(self.clock.now_ms, record) for record in records]
        super()._appended(records, producer)


class Replay:
    """One way in which the history may have happened, with a draw deciding everything that the records leave open. It
    is also the observer of its world."""

    def __init__(self, recorded: ReplayedGroup, draw: ReplayDraw) -> None:
        self.recorded, self.draw = recorded, draw
        self._chance = random.Random(draw.seed + "/moments")  # noqa: S311  (a simulation)
        self._drawn: dict[Moment, float] = {}
        group = _starting_group(recorded)
        self.world = _RecordingWorld(group, _settings(recorded, draw), draw, self)
        self.members = {
            process.name: scripted_member(self.world, _starting_member(recorded, process))
            for process in recorded.processes
        }

    @property
    def interruptions(self) -> int:
        """How often a member stopped consuming a partition."""
        return self.world.counting.drops

    def play(self) -> tuple[StampedRecord, ...]:
        """The records of the group from the beginning, starting with the ones that it is loaded from."""
        world = self.world
        seeds = self._load()
        for process in self.recorded.processes:
            for run in process.runs:
                self._schedule(process, run)
        end_ms = self._virtual(self.recorded.to_ms + self.recorded.session_timeout_ms + _AFTERWARDS_MS)
        world.clock.at(end_ms, lambda: None)
        most = _REQUESTS_PER_RUN * (4 + sum(len(process.runs) for process in self.recorded.processes))
        while world.clock.now_ms < end_ms and world.requests < most:
            world.run_next()
        records = [(START_MS, record) for record in seeds] + world.records
        return tuple(
            StampedRecord(timestamp_ms=round(at_ms - START_MS) + self.recorded.from_ms, record=record)
            for at_ms, record in records
        )

    # -- times

    def _virtual(self, ms: float) -> float:
        return ms - self.recorded.from_ms + START_MS

    def _at(self, moment: Moment, *, is_start: bool) -> float:
        """When it happened in this draw: the same time for everything that led to the same rebalance, unless the draw
        spaces them out."""
        if self.draw.spacing is not Spacing.AS_RECORDED and not moment.is_first:
            return self._virtual(self._spaced_ms(moment, is_start=is_start))
        drawn = self._drawn.get(moment)
        if drawn is None:
            lead_ms = _SPARE_MS + self.draw.heartbeat_interval_ms
            if moment.is_first:
                lead_ms = _SPARE_MS + self.draw.initial_delay_ms
            elif moment.latest_ms - moment.earliest_ms > lead_ms:
                lead_ms = round(lead_ms * (0.5 + 0.5 * self._chance.random()))
            drawn = self._virtual(max(moment.latest_ms - lead_ms, moment.earliest_ms))
            self._drawn[moment] = drawn
        return drawn

    def _spaced_ms(self, moment: Moment, *, is_start: bool) -> float:
        """A process stops before the next one starts. Late stops and early starts come close to those of neighboring
        rebalances. Things that happened at times of their own may have happened in the other order."""
        share = self._chance.random()
        if self.draw.spacing is not Spacing.ANY:
            is_late = is_start is (self.draw.spacing is Spacing.APART)
            share = 0.1 * share + (0.05 if is_late else 0.95)
        return max(moment.latest_ms - share * HEARTBEAT_INTERVAL_MS, moment.earliest_ms)

    # -- processes

    def _load(self) -> list[Record]:
        """Load the group as it is at the beginning."""
        world, group = self.world, self.world.group
        present = [self.members[process.name] for process in self.recorded.processes if process.runs[0].start is None]
        if not present:
            return []
        leader = next((each for each in present if each.spec.member_id == self.recorded.leader), present[0])
        seeds = seed_records(group, leader.spec, world.image, START_MS - 60_000, world.behavior)
        load_group(world, present, leader, seeds)
        return seeds

    def _schedule(self, process: RecordedProcess, run: MemberRun) -> None:
        clock, member = self.world.clock, self.members[process.name]
        if run.start is not None:
            clock.at(self._at(run.start, is_start=True), self._start, member)
        if run.end is None or run.ended is None:
            return
        at_ms = self._at(run.ended, is_start=False)
        match self._end_of(run):
            case RunEnd.EXPIRY:
                # If it had expired before others joined in the same rebalance, the group might have been empty in
                # between.
                expired_ms = at_ms + _EXPIRY_AFTER_MS
                # It was still there when the previous rebalance ended.
                vanished_ms = max(expired_ms - self.recorded.expired_after_ms, self._virtual(run.ended.earliest_ms))
                clock.at(vanished_ms, self._vanish, member, 0.0)
            case RunEnd.LEAVE:
                clock.at(at_ms, self._leave, member)
            case RunEnd.REMOVAL:
                clock.at(at_ms, self._remove, member)
            case _:  # it ends when the next one starts
                pass

    def _end_of(self, run: MemberRun) -> RunEnd | None:
        if run.is_end_sure or run.end not in (RunEnd.LEAVE, RunEnd.EXPIRY):
            return run.end
        expired = self.draw.unsure_expired
        expired = self._chance.random() < 0.5 if expired is None else expired
        return RunEnd.EXPIRY if expired else RunEnd.LEAVE

    def _lag_ms(self) -> float:
        share = self._chance.random() if self.draw.lag is None else self.draw.lag
        return share * min(HEARTBEAT_INTERVAL_MS, self.recorded.session_timeout_ms // 3)

    def _start(self, member: ScriptedMember) -> None:
        if member.is_up:  # it was a static member, and the next process takes its place
            if isinstance(member, ScriptedConsumerMember):
                member.stop(Stop.CLEAN)
            else:
                self._vanish(member, 0.0)
        member.start()

    def _vanish(self, member: ScriptedMember, lag_ms: float) -> None:
        """The process ends without leaving the group. lag_ms: how long after its last heartbeat."""
        if member.is_up:
            member.last_beat_ms = max(self.world.clock.now_ms - lag_ms, member.last_beat_ms)
            member.stop(Stop.CRASH)

    def _leave(self, member: ScriptedMember) -> None:
        """The consumer is closed: a static member of a classic group sends nothing (KIP-345)."""
        if isinstance(member, ScriptedConsumerMember):
            member.stop(Stop.CLEAN)
        elif member.spec.group_instance_id is not None:
            self._vanish(member, self._lag_ms())
        else:
            self._remove(member)

    def _remove(self, member: ScriptedMember) -> None:
        member_id, instance_id = member.member_id, member.spec.group_instance_id
        self._vanish(member, 0.0)
        if not member_id and instance_id is None:
            return
        identity = MemberIdentity(member_id="" if instance_id is not None else member_id, group_instance_id=instance_id)
        request = LeaveGroupRequest(group_id=self.recorded.group_id, members=[identity])
        self.world.send(LeaveSender(self.world, "/leaver"), request, LEAVE_VERSION, None)

    # -- what happens in the world (`WorldObserver`)

    def rebalance_began(self) -> None:
        for member in self.members.values():
            member.resume_heartbeats()

    def timer_expired(self) -> None: ...
    def group_recorded(self) -> None: ...
    def members_removed(self, member_ids: Sequence[str], replaced: frozenset[str]) -> None: ...

    def start_refused(self, member: Client) -> None:
        """A consumer group refuses a process while another one has its instance id. A supervisor restarts it."""
        assert isinstance(member, ScriptedMember)
        self.world.clock.after(_RETRY_MS, self._start_again, member, member.life)

    def expects_room(self) -> bool:
        return False  # the recorded processes had room

    def _start_again(self, member: ScriptedMember, life: int) -> None:
        if member.life == life:
            member.start()


def _starting_member(recorded: ReplayedGroup, process: RecordedProcess) -> StartingMember:
    first = process.runs[0]
    client = recognise_by_ids(recorded.group_id, process.client_id, first.member_id, None)
    return StartingMember(
        identity=process.name, member_id=first.member_id if first.start is None else "",
        group_instance_id=process.group_instance_id, client_id=process.client_id, client_host=process.client_host,
        topics=process.topics, session_timeout_ms=recorded.session_timeout_ms,
        rebalance_timeout_ms=recorded.rebalance_timeout_ms, owned=process.owned if first.start is None else {},
        client=client, library=played_as(client),
    )  # fmt: skip


def _starting_group(recorded: ReplayedGroup) -> StartingGroup:
    return StartingGroup(
        group_id=recorded.group_id, assignor=recorded.assignor, generation=recorded.generation,
        generation_is_known=True,
        members=tuple(
            _starting_member(recorded, process) for process in recorded.processes if process.runs[0].start is None
        ),
        topics=recorded.topics, protocol=recorded.protocol,
    )  # fmt: skip


def _settings(recorded: ReplayedGroup, draw: ReplayDraw) -> BrokerSettings:
    """A broker that accepts the group as it is."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=draw.initial_delay_ms)
    session_ms = recorded.session_timeout_ms
    return replace(
        settings,
        group_min_session_timeout_ms=min(session_ms, settings.group_min_session_timeout_ms),
        group_max_session_timeout_ms=max(session_ms, settings.group_max_session_timeout_ms),
        group_consumer_session_timeout_ms=session_ms,
        group_consumer_min_session_timeout_ms=min(session_ms, settings.group_consumer_min_session_timeout_ms),
        group_consumer_max_session_timeout_ms=max(session_ms, settings.group_consumer_max_session_timeout_ms),
    )
