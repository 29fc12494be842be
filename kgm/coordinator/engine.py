"""The coordinator of one shard: events in, outcomes out, and when an outcome takes effect. `dispatch` selects the
rules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kgm.coordinator import append_failure
from kgm.coordinator.admin.held_bytes import held_bytes
from kgm.coordinator.admin.view import GroupView, view_of
from kgm.coordinator.classic import rebalance, standby
from kgm.coordinator.consumer import timers
from kgm.coordinator.contract.error_responses import append_error
from kgm.coordinator.contract.outcome import (
    EXPIRATION_KEY,
    Millis,
    Outcome,
    Producer,
    Request,
    Run,
    Ticket,
    TimerKey,
)
from kgm.coordinator.contract.scale_out_plan import NO_PLANS
from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.dispatch import Dispatcher
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import NOT_REFRESHED, ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft, OnAppendFailure
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.offsets.store import Offsets
from kgm.coordinator.state import CoordinatorState
from kgm.coordinator.streams import fencing as streams_fencing
from kgm.model.errors import ErrorCode
from kgm.records.record import Record


class Coordinator:
    """A group coordinator. Not thread-safe: one event at a time.

    new_member_id: returns a new, unique member id for a prefix (the group instance id, or else the client id). In Kafka
    an id is the prefix, a dash and a random UUID. new_consumer_id: the same for members of consumer groups, always with
    prefix "" (Kafka: a Uuid of its own type); None: new_member_id is used. topics: partition counts of the topics that
    exist, read at each request; None: every topic exists, and consumer groups have nothing to assign. image: the topics
    with their ids, for consumer groups; None: built from `topics`. Call `topics_changed` whenever topics change."""

    def __init__(
        self,
        *,
        settings: BrokerSettings | None = None,
        new_member_id: Callable[[str], str],
        new_consumer_id: Callable[[str], str] | None = None,
        topics: Mapping[str, int] | None = None,
        image: TopicImage | None = None,
    ) -> None:
        self.settings = BrokerSettings() if settings is None else settings
        self._behavior = self.settings.behavior
        self._image = TopicImage.counted(topics or {}) if image is None else image
        #: Group configs by group id.
        self._configs: dict[str, GroupConfig] = {}
        self._state = CoordinatorState(behavior=self.settings.behavior)
        self._dispatcher = Dispatcher(
            self._state,
            new_member_id=new_member_id,
            new_consumer_id=new_consumer_id or new_member_id,
            topics=topics,
        )
        self._deadlines: dict[TimerKey, Millis] = {}
        self._in_flight: EventDraft | None = None
        #: How many runs of its records are replayed, and how many records of the next one.
        self._replayed = self._replayed_of_run = 0

    # -- events

    def handle(self, request: Request, *, ticket: Ticket, now: Millis) -> Outcome:
        """A request has arrived. If the outcome has records, `replay` each of them, or `abort`, before anything else.

        Raises TypeError for a message that is not a request to a group coordinator."""
        event = self._event(now, request=request, ticket=ticket)
        self._dispatcher.handle(request, event)
        return self._finish(event)

    def expire(self, key: TimerKey, *, now: Millis) -> Outcome:
        """A timer has fired. It is ignored if it was moved, cancelled or never set."""
        deadline = self._deadlines.get(key)
        event = self._event(now, alarm=key)
        if deadline is None or now < deadline:
            return event.outcome()
        event.cancel_timer(key)
        self._dispatcher.expire(key, event)
        return self._finish(event)

    def disconnected(self, ticket: Ticket, *, now: Millis) -> Outcome:
        """The connection of a request that waits for its reply was closed. That matters only for newcomers that are
        held back: a member waiting in a rebalance has a session. The ticket is still answered."""
        event = self._event(now)
        for installed in self._state.groups.values() if self.settings.plans else ():
            if isinstance(installed, ClassicGroup) and any(
                held.parked.ticket == ticket for held in installed.soft.held.values()
            ):
                standby.disconnected(event.draft(installed), ticket, event)
                break
        return self._finish(event)

    def replay(self, record: Run, producer: Producer | tuple[int, int] | None = None) -> None:
        """A record is in the log: one from the last outcome, in order, or a run of them (`runs_of`); on loading, any
        record in the log.

        producer: the producer of the transactional batch that contains the record; None if the batch is not
        transactional. Records that do not concern this coordinator are skipped."""
        in_flight = self._in_flight
        if isinstance(record, Record):
            self._state.replay(record, producer, is_own=in_flight is not None)
        else:
            self._state.replay_targets(record)
        if in_flight is not None:
            self._replayed_own(record, producer, in_flight)

    def adopt(self, group: ConsumerGroup) -> None:
        """Begin with a copy of a group that another coordinator has loaded, instead of replaying its records."""
        self._state.groups[group.group_id] = group.copy()

    def replay_end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,  # noqa: ARG002  (as in Kafka, it is the log that compares epochs)
        *,
        commit: bool,
    ) -> None:
        """A transaction marker is in the log: the pending offsets of the producer are committed, or dropped."""
        assert self._in_flight is None, "the last outcome is neither replayed nor aborted"
        self._state.offsets.end_transaction(producer_id, commit=commit)
        self._state.configured({}, is_written=True)

    def abort(self, error: ErrorCode, *, now: Millis) -> Outcome:
        """The records of the last outcome could not be appended, because of this error. The outcome is void, and the
        one returned here replaces it. The new one has records only if it ends a rebalance."""
        failed = self._in_flight
        assert failed is not None, "nothing is in flight"
        assert self._replayed == 0, "some of it is in the log"
        self._in_flight = None
        self._state.forget_topologies()
        event = self._event(now, request=failed.request, ticket=failed.ticket, alarm=failed.alarm)
        match failed.on_append_failure:
            case OnAppendFailure.REVERT:
                append_failure.revert(self._state.groups, failed, event, append_error(error))
            case OnAppendFailure.KEEP:
                append_failure.keep(failed, event, append_error(error))
            case OnAppendFailure.REBALANCE:
                append_failure.start_rebalance(self._state.groups, failed, event, append_error(error))
            case OnAppendFailure.WITHOUT_PLANS:
                self._retry_without_plans(failed, event)
        append_failure.end_delays(failed, event)
        return self._finish(event)

    def loaded(self, *, now: Millis, group_ids: Iterable[str] | None = None) -> Outcome:
        """The log has been replayed: start the sessions of all members, rebalance groups that are over the size limit,
        and start the timer for expired offsets.

        group_ids: only these groups. A large log can be finished in several calls that together name all groups; no
        other event may be handled before the last of them."""
        event = self._event(now)
        groups = self._state.groups
        for group_id in list(groups if group_ids is None else group_ids):
            match groups[group_id]:
                case ClassicGroup() as installed if self._has_ended(installed):
                    event.dropped_groups.append(group_id)
                case ClassicGroup() as installed:
                    for member in installed.members.values():
                        rebalance.extend_session(installed, member, event)
                    if len(installed.members) > self.settings.group_max_size:
                        rebalance.prepare_rebalance(event.draft(installed), event)
                case ConsumerGroup() as group:
                    timers.arm(group, event)
                case StreamsGroup() as group:
                    streams_fencing.arm(group, event)
                case ForeignGroup():
                    pass
        event.set_timer(EXPIRATION_KEY, self.settings.offsets_retention_check_interval_ms)
        return self._finish(event)

    def unloaded(self, *, now: Millis) -> Outcome:
        """The shard moves to another broker: parked requests are answered with NOT_COORDINATOR, and classic groups
        become Dead."""
        event = self._event(now)
        for installed in self._state.groups.values():
            if not isinstance(installed, ClassicGroup):
                continue
            group = event.draft(installed)
            parked = [
                member_id
                for member_id in (*group.soft.parked_joins, *group.soft.parked_syncs)
                if member_id in group.members
            ]
            for member_id in parked:
                rebalance.answer_join(group, member_id, ErrorCode.NOT_COORDINATOR, event, echo=member_id)
                rebalance.answer_sync(group, member_id, ErrorCode.NOT_COORDINATOR, event)
            standby.dismiss_all(group, ErrorCode.NOT_COORDINATOR, event)
            group.move_to(ClassicState.DEAD, now)
        for key in self._deadlines:
            event.cancel_timer(key)
        return self._finish(event)

    def topics_changed(self, image: TopicImage | None = None, *, now: Millis) -> Outcome:
        """Topics were created, changed or deleted: use this image, or one made from `topics`. Consumer groups that
        subscribe to a changed topic recompute their metadata hash on the next heartbeat; offsets of deleted topics are
        deleted."""
        before = self._image
        if image is None:
            image = TopicImage.counted(self._dispatcher.topics or {}, version=before.version + 1)
        self._image = image.after(before)
        changed = image.changed_since(before)
        for group in list(self._state.groups.values()):
            match group:
                case ConsumerGroup() if any(map(group.is_subscribed_to, changed)):
                    self._state.own(group).refresh = NOT_REFRESHED
                case StreamsGroup() if group.topology is not None and changed & group.topology.topics:
                    self._state.own(group).refresh = NOT_REFRESHED
        event = self._event(now)
        deleted = {topic.name: topic for topic in before.by_name.values() if topic.topic_id not in image.by_id}
        by_id = self.settings.behavior.deletes_offsets_by_topic_id
        for record in self._state.offsets.tombstones_of(deleted, by_id=by_id):
            event.write(record)
        return self._finish(event)

    def configure(self, group_id: str, values: Mapping[str, str | int]) -> None:
        """Set the group configs of one group (Kafka's config resource GROUP), replacing the previous ones. Raises
        UsageError for an unknown name, or for a value that is not a number."""
        if values or group_id in self._configs:
            self._configs[group_id] = GroupConfig.of(values, self.settings)

    # -- questions

    @property
    def image(self) -> TopicImage:
        """The topics that exist."""
        return self._image

    def group_ids(self) -> tuple[str, ...]:
        """The ids of all groups."""
        return tuple(self._state.groups)

    def groups(self) -> tuple[GroupView, ...]:
        """All groups, by group id."""
        return tuple(view_of(group, self._deadlines, self._image) for _, group in sorted(self._state.groups.items()))

    def group(self, group_id: str) -> GroupView | None:
        """One group, or None if there is no such group."""
        group = self._state.groups.get(group_id)
        return None if group is None else view_of(group, self._deadlines, self._image)

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """A classic group itself, for `classic.regular_round`; None if there is none with this id."""
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """A consumer group itself, which must only be read; None if there is none with this id."""
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        """A streams group itself, which must only be read; None if there is none with this id."""
        group = self._state.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def suspend_timers(self, keys: Iterable[TimerKey]) -> None:
        """See `Runtime.suspend_timers`."""
        for key in keys:
            self._deadlines.pop(key, None)

    def resume_timer(self, key: TimerKey, deadline: Millis) -> None:
        """See `Runtime.resume_timers`."""
        self._deadlines[key] = deadline

    def held_bytes(self) -> int:
        """How much all groups keep for their members, in bytes as sent by clients."""
        return sum(map(held_bytes, self._state.groups.values()))

    def offset_bytes(self) -> int:
        """Approximate size of all offsets, in bytes."""
        return self._state.offsets.held_bytes()

    def deadline(self, key: TimerKey) -> Millis | None:
        """When a timer fires, or None if it is not set."""
        return self._deadlines.get(key)

    @property
    def deadlines(self) -> Mapping[TimerKey, Millis]:
        """All live timers, in the order in which they were last set."""
        return self._deadlines

    @property
    def offsets(self) -> Offsets:
        """All committed offsets; they must not be changed."""
        return self._state.offsets

    def fork(self) -> "Coordinator":
        """An independent copy, with all timers and parked requests. It uses the same functions to make member ids."""
        assert self._in_flight is None, "an outcome is neither replayed nor aborted"
        twin = object.__new__(Coordinator)
        twin.settings, twin._behavior = self.settings, self._behavior
        twin._image = self._image
        twin._configs = self._configs.copy()
        twin._state = self._state.fork()
        twin._dispatcher = self._dispatcher.with_state(twin._state)
        twin._in_flight, twin._replayed, twin._replayed_of_run = None, 0, 0
        twin._deadlines = self._deadlines.copy()
        return twin

    # -- inside

    def _has_ended(self, group: ClassicGroup) -> bool:
        """Whether a loaded group had only offsets, which have since been deleted, and the coordinator writes no record
        when such a group ends."""
        return (
            not self._behavior.writes_new_groups
            and not (group.generation or group.members)
            and not self._state.offsets.of(group.group_id)
            and not self._state.offsets.unstable_of(group.group_id)
        )

    def _event(
        self,
        now: Millis,
        *,
        request: Request | None = None,
        ticket: Ticket | None = None,
        alarm: TimerKey | None = None,
    ) -> EventDraft:
        return EventDraft(
            now=now,
            settings=self.settings,
            behavior=self._behavior,
            live_timers=self._deadlines,
            image=self._image,
            configs=self._configs,
            request=request,
            ticket=ticket,
            alarm=alarm,
        )

    def _finish(self, event: EventDraft) -> Outcome:
        """Let an event without records take effect. An event with records is in flight until they are replayed."""
        assert self._in_flight is None, "the outcome before this one is neither replayed nor aborted"
        if event.records:
            assert not event.is_in_place, "a group was changed by an event that may fail"
            self._in_flight, self._replayed = event, 0
        else:
            self._take_effect(event)
        return event.outcome()

    def _take_effect(self, event: EventDraft) -> None:
        if event.groups:
            groups = self._state.groups
            for group_id, draft in event.groups.items():
                groups[group_id] = draft.take_effect()
        if event.records or event.topologies:
            self._state.configured(event.topologies, is_written=bool(event.records))
        for group_id in event.dropped_groups:
            self._state.groups.pop(group_id, None)
        deadlines = self._deadlines
        for key, deadline in event.timers.items():
            if key in deadlines:
                del deadlines[key]
            if deadline is not None:
                deadlines[key] = deadline

    def _replayed_own(self, record: Run, producer: Producer | tuple[int, int] | None, in_flight: EventDraft) -> None:
        """A record of the outcome in flight was replayed. With the last one, the rest of the outcome takes effect."""
        run = in_flight.records[self._replayed]
        assert producer == in_flight.producer, "not in the transaction that it was to be part of"
        if isinstance(record, Record) and not isinstance(run, Record):
            assert record == run[self._replayed_of_run], "not the record that was to be appended"
            self._replayed_of_run += 1
            if self._replayed_of_run < len(run):
                return
            self._replayed_of_run = 0
        else:
            assert record == run, "not the record that was to be appended"
        self._replayed += 1
        if self._replayed == len(in_flight.records):
            self._in_flight = None
            self._take_effect(in_flight)

    def _retry_without_plans(self, failed: EventDraft, event: EventDraft) -> None:
        """A spare could not take the place of a removed member: remove the member with a rebalance."""
        event.settings = replace(event.settings, plans=NO_PLANS)
        if failed.alarm is not None:
            event.cancel_timer(failed.alarm)
            self._dispatcher.expire(failed.alarm, event)
        else:
            assert failed.request is not None
            self._dispatcher.handle(failed.request, event)
