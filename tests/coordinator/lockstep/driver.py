"""kgm's coordinator and Kafka's own, step by step on one clock: each must do what the other does.

Kafka goes first, and kgm then uses its new member ids. Everything else must be equal: replies byte by byte (except for
the order in which members, groups, topics and partitions are listed), records, timers, and the whole state of every
group and of every offset."""

import base64
import json
import os
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from kgm.coordinator.contract.behavior import behavior_of
from kgm.coordinator.contract.outcome import Millis, Producer, Request, Ticket, TimerKind
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.contract.topic_image import Topic, TopicImage
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.consumer_group import CONSUMER, ConsumerGroup, MetadataRefresh
from kgm.coordinator.groups.consumer_member import AWAY
from kgm.coordinator.groups.streams_group import STREAMS, StreamsGroup
from kgm.coordinator.runtime import AppendError, Runtime
from kgm.java.hash_set import copied_set_order
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol import codec
from kgm.protocol.apis import ApiKey, response_class
from kgm.protocol.subscription import decode_assignment, encode_assignment
from kgm.records.member_states import MemberState, TaskState
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.record import decode_record, encode_record
from tests.coordinator.harness import compacted, read_entry
from tests.kafka.jars import KAFKA_VERSION, classpath
from tests.kafka.java_tools import compiled, java_command
from tests.kafka.process import Child

#: Kafka never answers a parked request that a repeat of the same member replaces, nor a leaver's parked SyncGroup.
NEVER_ANSWERED = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID}
#: The number of replicas that Kafka uses if the topology does not set one.
_DEFAULT_REPLICAS = -1
_PROTOCOLS = "group_coordinator_rebalance_protocols"
KAFKAS_NAMES = {"offset_metadata_max_bytes": "offset.metadata.max.bytes"}


class KafkasCoordinator:
    """The JVM that answers line by line. version: of Kafka's jars, 4.0 or later. played_as: the version that kgm's
    engine plays, if it is not the same."""

    MAIN_CLASS = "org.apache.kafka.coordinator.group.CoordinatorOracle"
    SOURCES = ("AnyVersion", "CoordinatorOracle")
    #: In addition, for versions that have streams groups.
    STREAMS = ("StreamsStates",)

    def __init__(self, version=KAFKA_VERSION, *, played_as=None):
        self.version = BrokerVersion.parse(played_as or version)
        has_streams = played_as is None and behavior_of(self.version).has_streams_groups
        sources = (*self.SOURCES, *(self.STREAMS if has_streams else ()))
        self._temp = tempfile.TemporaryDirectory(prefix="kgm-coordinator-")
        path = self.class_path(version)
        classes = compiled([Path(__file__).parent / "java" / f"{name}.java" for name in sources], path)
        command = java_command(self.MAIN_CLASS, heap_mb=256, class_path=f"{classes}:{path}")
        self._child = Child(command, log=Path(self._temp.name) / "log", pipe_stdout=True)

    @staticmethod
    def class_path(version):
        return os.pathsep.join([classpath(f"kafka-{version}"), classpath("mockito")])

    def ask(self, **command):
        self._child.stdin.write(json.dumps(command) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        assert line, self._child.log_tail()
        answer = json.loads(line)
        assert "failure" not in answer, answer["failure"]
        return answer

    def close(self):
        self._child.kill()
        self._child.stdout.close()
        self._temp.cleanup()


class Lockstep:
    """Both coordinators. `trace` records what was done, for the report of a difference."""

    #: Whether the members of classic groups must also be in the same order.
    KEEPS_ORDER = False

    def __init__(self, kafka, *, seed=0, **settings):
        self.kafka = kafka
        self.seed = self.first_seed = seed
        self.first_settings = settings
        self.settings = BrokerSettings(**{"kafka_version": kafka.version} | settings)
        self.now = Millis(1_000_000)
        self.image = TopicImage()
        self.configs = {}
        self.stale = []
        self.types = {}
        self.clients_ids = set()
        self.engine = Coordinator(settings=self.settings, new_member_id=self._new_member_id)
        self.new_topics = []
        self.runtime = self._new_runtime()
        self.fail = None
        self.is_reverted = False
        self.log = []
        self.appended = []
        self.requests = {}
        self.answers = {}
        self.ids = []
        self.new_ids = []
        # What was done, for `redo` to repeat: each id is stored as (number of the deed, number of ids that it had given
        # out before).
        self.deeds = []
        self.origins = {}
        self.last_ticket = 0
        self.answer = {"groups": {}, "timers": {}, "offsets": {}, "pending": {}}
        self.trace = [f"settings {settings}"]
        self.redoing = None
        self.seen = Counter()
        self._ask(op="start", now=self.now, seed=self.seed, settings=self._kafka_settings())

    def _ask(self, **command):
        """Send a command, along with the timers that no longer mean anything."""
        stale, self.stale = self.stale, []
        return self.kafka.ask(**command, drop=stale)

    # -- events

    def request(self, message, version, *, client_id="client", fail=None):
        self._deed("request", self._symbolic(message), version, client_id=client_id, fail=fail)
        self.last_ticket += 1
        ticket = Ticket(self.last_ticket)
        self.trace.append(f"{self.now} #{ticket} v{version} {_brief(message)}" + (f" FAIL {fail.name}" if fail else ""))
        while (timer := self.runtime.next_timer()) is not None and timer.deadline_ms <= self.now:
            self._fire(timer, None)
        self.requests[ticket] = (message, version)
        self.answer = self._ask(
            op="request", ticket=ticket, api=message.API_KEY, version=version, client_id=client_id,
            data=_text(codec.encode(message, version)), fail=fail and fail.name,
        )  # fmt: skip
        request = Request(message=message, version=version, client_id=client_id, client_host="/127.0.0.1")
        self._ours(lambda: self.runtime.handle(request, ticket=ticket, now=self.now), fail)
        return ticket

    def marker(self, producer, *, commit):
        """A producer's transaction ends."""
        self._deed("marker", producer, commit=commit)
        producer = Producer(*producer)
        self.trace.append(f"{self.now} {'commit' if commit else 'abort'} {tuple(producer)}")
        self.answer = self._ask(op="marker", **_who(producer), commit=commit)
        self.log.append((producer, commit))
        self._ours(lambda: self._end_transaction(producer, commit), None)

    def sleep(self, ms, *, fail=None):
        self._deed("sleep", ms, fail=fail)
        until = Millis(self.now + ms)
        self.trace.append(f"{self.now} sleep {ms}" + (f" FAIL {fail.name}" if fail else ""))
        while (timer := self.runtime.next_timer()) is not None and timer.deadline_ms <= until:
            self._fire(timer, fail)
        self.now = until
        self.answer = self._ask(op="sleep", now=self.now)

    def topics(self, topics, *, racks=False):
        """Set the topics: name -> (id, partitions)."""
        self._deed("topics", topics, racks=racks)
        self.trace.append(f"{self.now} topics {topics}")
        while (timer := self.runtime.next_timer()) is not None and timer.deadline_ms <= self.now:
            self._fire(timer, None)
        self._make_image(topics, racks)
        self.answer = self._ask(op="topics", **self._kafkas_topics(), racks=racks, quietly=False)
        self._ours(lambda: self.runtime.topics_changed(self.image, now=self.now), None)
        self.image = self.engine.image

    def _make_image(self, topics, racks):
        def racks_of(count):
            return tuple((f"rack{i % 4}", f"rack{(i + 1) % 4}") for i in range(count)) if racks else ()

        self.image = TopicImage.of(
            (Topic(name=n, topic_id=i, partitions=p, racks=racks_of(p)) for n, (i, p) in topics.items()),
            version=self.image.version + 1,
        )

    def _kafkas_topics(self):
        rows = [
            {"name": topic.name, "id": _text(topic.topic_id), "partitions": topic.partitions}
            for topic in self.image.by_name.values()
        ]
        return {"topics": rows, "version": self.image.version}

    def configure(self, group, values):
        """Set the settings of one group, or remove them."""
        self._deed("configure", group, values)
        if not values and group not in self.configs:
            return
        self.trace.append(f"{self.now} configure {group} {values}")
        self.configs[group] = values
        self.answer = self._ask(op="config", group=group, values={n: str(v) for n, v in values.items()})
        self.engine.configure(group, values)

    def unload(self):
        self._deed("unload")
        self.trace.append("unload")
        self.answer = self._ask(op="unload")
        self._ours(lambda: self.runtime.unload(now=self.now), None)

    def reload(self, *, compact=False, **settings):
        """Restart both from the log, perhaps with other settings."""
        self._deed("reload", compact=compact, **settings)
        self.seed += 1
        self.trace.append(f"reload {'compacted ' if compact else ''}{settings}")
        self.settings = BrokerSettings(**{"kafka_version": self.kafka.version} | settings)
        image = TopicImage.of(self.image.by_name.values(), version=self.image.version)
        self.engine = Coordinator(settings=self.settings, new_member_id=self._new_member_id, image=image)
        self.runtime = self._new_runtime()
        self.requests.clear()
        self.stale = []
        self._ask(op="start", now=self.now, seed=self.seed, settings=self._kafka_settings())
        if len(self.image):
            has_racks = any(topic.racks for topic in self.image.by_name.values())
            self._ask(op="topics", **self._kafkas_topics(), racks=has_racks, quietly=True)
        self.configs = {group: values for group, values in self.configs.items() if values}
        for group, values in self.configs.items():
            self._ask(op="config", group=group, values={n: str(v) for n, v in values.items()})
            self.engine.configure(group, values)
        if compact:
            self.log = compacted(self.log)
        for entry, producer, commit in map(read_entry, self.log):
            if entry is None:
                self._ask(op="marker", **_who(producer), commit=commit)
                continue
            key, value = encode_record(entry)
            self._ask(op="replay", key=_text(key), value=None if value is None else _text(value), **_who(producer))
        self.answer = self._ask(op="load")
        self._ours(self._load, None)

    def _new_runtime(self):
        return Runtime(self.engine, append=self._append, create_topics=self.new_topics.extend)

    def _load(self):
        for entry, producer, commit in map(read_entry, self.log):
            if entry is None:
                self._end_transaction(producer, commit)
            else:
                self.engine.replay(entry, producer)
        return self.runtime.loaded(now=self.now)

    def _end_transaction(self, producer, commit):
        self.engine.replay_end_transaction(*producer, commit=commit)
        return ()

    def _fire(self, timer, fail):
        self.trace.append(f"{timer.deadline_ms} fire {timer.key}")
        failing = fail and fail.name
        if timer.key.kind is TimerKind.REGEX:
            self.answer = self._ask(
                op="resolve", key=f"{timer.key.group_id}-regex", now=timer.deadline_ms, fail=failing
            )
        else:
            self.answer = self._ask(op="fire", key=self._kafka_key(timer.key), now=timer.deadline_ms, fail=failing)
        self.now = max(self.now, timer.deadline_ms)
        self._ours(lambda: self.runtime.fire(timer), fail)
        self.seen[f"{timer.key.kind.name} writes" if self.appended else f"{timer.key.kind.name}"] += 1

    # -- doing it again

    def _deed(self, name, *args, **kwargs):
        self.deeds.append((len(self.deeds), name, args, kwargs))

    def _note_id(self, member_id):
        self.ids.append(member_id)
        deed = len(self.deeds) - 1 if self.redoing is None else self.redoing
        self.origins[member_id] = (deed, sum(origin[0] == deed for origin in self.origins.values()))

    def _symbolic(self, message):
        return _renamed(message, lambda text: _Id(self.origins[text]) if text in self.origins else text)

    def redo(self, deeds):
        """Repeat the deeds of another lockstep that began with the same settings."""
        for number, name, args, kwargs in deeds:
            self.redoing = number
            getattr(self, name)(*map(self._concrete, args), **kwargs)

    def _concrete(self, value):
        ids = {origin: member_id for member_id, origin in self.origins.items()}
        return _renamed(value, lambda text: ids.get(text.origin, "lost") if isinstance(text, _Id) else text)

    # -- comparison

    def _ours(self, act, fail):
        self.fail, self.appended, self.producer = fail, [], None
        self.new_topics.clear()
        self._find_new_ids()
        try:
            replies = act()
        finally:
            self.fail = None
        self.failed = fail
        if self.appended:
            self.is_reverted = fail is not None
        for reply in replies:
            assert reply.ticket in self.requests, f"ticket {reply.ticket} is answered twice"
        self._compare_replies(replies)
        self._compare_records()
        self._compare_groups()
        self._compare_offsets()
        self._compare_timers()
        created = {
            topic.name: [topic.partitions, topic.replication_factor or _DEFAULT_REPLICAS] for topic in self.new_topics
        }
        assert created == (self.answer.get("created") or {})

    def _compare_replies(self, replies):
        ours = {reply.ticket: reply.message for reply in replies}
        self.failed_members = set()
        theirs = {ticket: base64.b64decode(data) for ticket, data in self.answer["replies"]}
        for ticket in [*theirs, *(t for t in ours if t not in theirs)]:
            message, version = self.requests.pop(ticket)
            api = message.API_KEY
            if ticket not in theirs:
                assert ours[ticket].error_code in NEVER_ANSWERED, f"Kafka does not answer {ticket}: {ours[ticket]}"
                self.answers[ticket] = (version, ours[ticket])
                self.seen["extra answer"] += 1
                continue
            expected = codec.decode(response_class(api), theirs[ticket], version)
            if api == ApiKey.LIST_GROUPS and self.is_reverted:
                _list_once(expected)
            self.answers[ticket] = (version, expected)
            if api == ApiKey.STREAMS_GROUP_HEARTBEAT and expected.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
                self.failed_members.add(message.member_id)
            assert ticket in ours, f"Kafka answers {ticket}: {expected}"
            # What kgm replies must also be encodable.
            said = codec.decode(response_class(api), codec.encode(ours[ticket], version), version)
            same = self.KEEPS_ORDER
            assert _sorted(said, same) == _sorted(expected, same), f"ticket {ticket}\nours   {said}\nKafka's {expected}"
            self.seen.update(f"{type(message).__name__} {error}" for error in _errors(expected))
            member_id = getattr(expected, "member_id", "")
            if member_id and member_id not in self.origins and member_id not in self.clients_ids:
                self._note_id(member_id)

    def _compare_records(self):
        theirs = [
            (base64.b64decode(key), None if value is None else base64.b64decode(value))
            for key, value, _ in self.answer["records"]
        ]
        assert {producer for _, _, producer in self.answer["records"]} <= {
            -1 if self.producer is None else self.producer.producer_id
        }
        # kgm must write the same records byte by byte: in a tagged field, absent, null and empty are three different
        # things.
        written = self._comparable(theirs)
        assert [self._encoded(decode_record(*row)) for row in written] == written
        ours = [self._encoded(record) for record in self.appended]
        theirs, ours = self._settled(theirs), self._settled(ours)
        ours_read, theirs_read = (
            "\n".join(str(_sorted(decode_record(*row), self.KEEPS_ORDER)) for row in rows) for rows in (ours, theirs)
        )
        assert ours_read == theirs_read, f"ours\n{ours_read}\nKafka's\n{theirs_read}"
        assert [(key[:2], value and value[:2]) for key, value in self._comparable(ours)] == [
            (key[:2], value and value[:2]) for key, value in self._comparable(theirs)
        ]

    def _comparable(self, rows):
        """The records whose bytes must be equal, except for their order."""
        return rows

    def _settled(self, rows):
        return _settled(rows)

    def _encoded(self, record):
        """The record as 4.3 writes it, except for the version of offsets, which was different before they had topic
        ids."""
        key, value = encode_record(record)
        if value and isinstance(record.key, OffsetCommitKey) and not self.settings.behavior.has_topic_ids_of_offsets:
            version = min(int.from_bytes(value[:2], "big"), 3)
            value = version.to_bytes(2, "big") + codec.encode(record.value, version)
        return key, value

    def _count_places(self, ours):
        """Count the states that groups have reached, to show what the histories cover."""
        for group_id, before in self.types.items():
            after = ours.get(group_id)
            if (
                after is not None
                and STREAMS not in (kind := after.get("type", "classic"), before[0])
                and kind != before[0]
            ):
                way = "upgrade" if kind == CONSUMER else "downgrade"
                self.seen[f"{way} {'empty' if before[1] else 'live'}"] += 1
        self.types = {id_: (row.get("type", "classic"), not row["members"]) for id_, row in ours.items()}
        for row in ours.values():
            if row.get("type") == STREAMS:
                self.seen[f"streams group {row['state']}"] += 1
                for member in row["members"].values():
                    self.seen[f"streams member {TaskState(member['state']).name}"] += 1
                    self.seen["standby task"] += bool(member["assigned"][1])
            if row.get("type") != "consumer":
                continue
            self.seen[f"consumer group {row['state']}"] += 1
            self.seen["mixed group"] += 0 < row["classic"] < len(row["members"])
            for member in row["members"].values():
                self.seen[f"member {MemberState(member['state']).name}"] += 1
                self.seen["member away"] += member["epoch"] == AWAY

    def _compare_groups(self):
        groups = self.engine._state.groups
        ours = {group_id: _state(group) for group_id, group in groups.items()}
        theirs = {group_id: _normal(group) for group_id, group in self.answer["groups"].items()}
        # A simple group's first timestamp is not in the log: Kafka uses the time of the replay, kgm none.
        for group_id, group in theirs.items():
            if group_id in ours and ours[group_id].get("timestamp") == -1:
                group["timestamp"] = -1
        assert ours.keys() == theirs.keys()
        for group_id, group in ours.items():
            if theirs[group_id].get("refresh") == [0, 0]:
                # Kafka's index of subscriptions keeps its entries when a group becomes a classic one, and then
                # refreshes the topics once more without effect.
                groups[group_id].refresh = MetadataRefresh()
                group["refresh"] = [0, 0]
            names = {name for name in {*group, *theirs[group_id]} if group.get(name) != theirs[group_id].get(name)}
            difference = [f"{name}\nours   {group.get(name)}\nKafka's {theirs[group_id].get(name)}" for name in names]
            assert not difference, "\n".join(difference)
        self._count_places(ours)

    def _compare_offsets(self):
        offsets = self.engine.offsets
        assert _rows(offsets.by_group) == self.answer["offsets"]
        assert {str(id_): _rows(by_group) for id_, by_group in offsets.pending.items()} == self.answer["pending"]

    def _compare_timers(self):
        # Kafka lets some timers fire without effect: those of members and of new groups that are gone. Another timer
        # counts groups for metrics.
        meant = {"expire-group-metadata"}
        for group_id, group in self.answer["groups"].items():
            if group.get("type") == "consumer":
                meant |= self._meant_of_consumers(group_id, group)
                continue
            if group.get("type") == STREAMS:
                meant |= {f"session-timeout-{group_id}-{id_}" for id_ in group["members"]}
                # A heartbeat that fails may have set one for an epoch that the member never reaches: it fires without
                # effect.
                meant |= {
                    f"rebalance-timeout-{group_id}-{id_}"
                    for id_, member in group["members"].items()
                    if member["state"] == TaskState.UNREVOKED_TASKS and id_ not in self.failed_members
                }
                continue
            meant.add(f"sync-{group_id}")
            if group["state"] == "PreparingRebalance":
                meant.add(f"join-{group_id}")
            meant |= {f"heartbeat-{group_id}-{id_}" for id_ in (*group["members"], *group["pending_joins"])}
        meant |= {self._kafka_key(key) for key in self.engine.deadlines if key.kind in _NAMED_ALIKE}
        theirs = {key: deadline for key, deadline in self.answer["timers"].items() if key in meant}
        self.stale = [key for key in self.answer["timers"] if key not in meant and key != "group-size-counter"]
        resolving = {f"{key.group_id}-regex" for key in self.engine.deadlines if key.kind is TimerKind.REGEX}
        # Tasks of a group that could not be created: Kafka's other thread then finds nothing to do.
        self.stale += set(self.answer["tasks"]) - resolving
        assert resolving <= set(self.answer["tasks"])
        assert self.failed is not None or resolving == set(self.answer["tasks"])
        ours = {
            self._kafka_key(key): deadline
            for key, deadline in self.engine.deadlines.items()
            if key.kind is not TimerKind.REGEX
        }
        assert ours == theirs, (
            f"ours {dict(ours.items() - theirs.items())}\nKafka's {dict(theirs.items() - ours.items())}"
        )

    def _meant_of_consumers(self, group_id, group):
        meant = set()
        for member_id, member in group["members"].items():
            meant.add(f"session-timeout-{group_id}-{member_id}")
            meant |= {f"join-{group_id}-{member_id}", f"sync-{group_id}-{member_id}"}
            # For a classic member that is still revoking in the next epoch, Kafka's timer fires without effect.
            may_be_stale = member["session"] is not None and self.settings.behavior.increments_epoch_of_revocation
            if member["state"] == 1 and member["epoch"] >= 0 and not may_be_stale:
                meant.add(f"rebalance-timeout-{group_id}-{member_id}")
        return meant

    def _kafka_key(self, key):
        in_consumer_group = isinstance(self.engine._state.groups.get(key.group_id), ConsumerGroup | StreamsGroup)
        match key.kind:
            case TimerKind.SESSION:
                return f"{'session-timeout' if in_consumer_group else 'heartbeat'}-{key.group_id}-{key.member_id}"
            case TimerKind.REBALANCE:
                return f"rebalance-timeout-{key.group_id}-{key.member_id}"
            case TimerKind.MEMBER_JOIN:
                return f"join-{key.group_id}-{key.member_id}"
            case TimerKind.MEMBER_SYNC:
                return f"sync-{key.group_id}-{key.member_id}"
            case TimerKind.OFFSET_EXPIRATION:
                return "expire-group-metadata"
            case kind:
                return f"{kind.value}-{key.group_id}"

    # -- Kafka's choices

    def _find_new_ids(self):
        known = self.origins
        said = {getattr(message, "member_id", "") for message, _ in self.requests.values()}
        found = [
            member_id
            for group in self.answer["groups"].values()
            for member_id in (*group["members"], *group.get("pending_joins", ()))
        ]
        records = [
            decode_record(base64.b64decode(key), base64.b64decode(value))
            for key, value, _ in self.answer["records"]
            if value is not None
        ]
        found += [member.member_id for row in records for member in getattr(row.value, "members", ())]
        found += [row.key.member_id for row in records if hasattr(row.key, "member_id")]
        for ticket, data in self.answer["replies"]:
            message, version = self.requests[ticket]
            reply = codec.decode(response_class(message.API_KEY), base64.b64decode(data), version)
            if getattr(reply, "error_code", 0) == ErrorCode.MEMBER_ID_REQUIRED:
                found.append(reply.member_id)
        self.new_ids = [
            member_id
            for member_id in dict.fromkeys(found)
            if member_id not in known and member_id not in self.clients_ids and member_id not in said
        ]
        self.clients_ids |= said

    def _new_member_id(self, prefix):
        """The id that Kafka has just given out; a made-up one if Kafka no longer has it after the step."""
        if not self.new_ids:
            return f"{prefix}-lost-{self.last_ticket}"
        (member_id,) = self.new_ids
        assert not prefix or member_id.startswith(f"{prefix}-"), (member_id, prefix)
        self._note_id(member_id)
        return member_id

    def _append(self, records, producer=None):
        self.appended, self.producer = list(records), producer
        if self.fail is not None:
            raise AppendError(self.fail)
        self.log.extend((record, producer) for record in records)

    def _kafka_settings(self):
        return {
            name.replace("_", "."): str(getattr(self.settings, name))
            for name in BrokerSettings.__dataclass_fields__
            # 4.0 does not know the name of streams groups yet.
            if not name.startswith("offsets_topic") and name not in ("kafka_version", _PROTOCOLS)
        }


def _settled(rows):
    """Records in a fixed order where Kafka's depends on a hash map: tombstones of several members or regular
    expressions, and resolved expressions."""
    settled, run = [], []
    members = {key for key, value in rows if value is None and key[:2] in _MEMBER}
    for row in [*rows, None]:
        is_loose = row is not None and (
            row[0][:2] == _REGEX or (row[1] is None and (len(members) != 1 or row[0][:2] not in _OF_MEMBER))
        )
        if not is_loose:
            settled += sorted(run)
            run = []
            if row is not None:
                settled.append(row)
        else:
            run.append(row)
    return settled


_MEMBER, _REGEX = {b"\x00\x05", b"\x00\x13"}, b"\x00\x10"
_OF_MEMBER = {*_MEMBER, b"\x00\x07", b"\x00\x08", b"\x00\x15", b"\x00\x16"}
#: Timers that Kafka may let fire when they no longer mean anything.
_NAMED_ALIKE = (TimerKind.REBALANCE, TimerKind.INITIAL_DELAY)


def _state(group):
    if isinstance(group, ConsumerGroup):
        return _consumer_state(group)
    if isinstance(group, StreamsGroup):
        return _streams_state(group)
    return {
        "state": group.state.value,
        "previous": group.soft.previous_state.value,
        "timestamp": -1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "pending_joins": set(group.soft.pending_joins),
        "pending_syncs": set(group.soft.pending_syncs),
        "new_member_added": group.soft.new_member_added,
        "topics": None if group.subscribed_topics is None else sorted(group.subscribed_topics),
        "static": group.static_ids,
        "members": {
            member.member_id: {
                "instance": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance": member.rebalance_timeout_ms,
                "session": member.session_timeout_ms,
                "assignment": _text(_sorted_assignment(member.assignment)),
                "new": member.is_new,
                "joining": member.member_id in group.soft.parked_joins,
                "syncing": member.member_id in group.soft.parked_syncs,
                "protocols": [[name, _text(metadata)] for name, metadata in member.protocols],
            }
            for member in group.members.values()
        },
    }


def _consumer_state(group):
    return {
        "type": "consumer",
        "state": group.state,
        "epoch": group.group_epoch,
        "hash": group.metadata_hash,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp": group.assignment_timestamp_ms,
        "static": group.static_ids,
        "assignors": group.server_assignors,
        "classic": group.classic_members,
        "classic_protocols": group.classic_protocols,
        "regexes": group.regexes,
        "homogeneous": "Homogeneous" if group.is_homogeneous else "Heterogeneous",
        "partition_metadata": group.has_partition_metadata
        if group.behavior.has_metadata_hash
        else bool(group.partition_metadata),
        "refresh": list(group.refresh),
        "resolved": {
            regex: [sorted(row.topics), row.version, row.timestamp_ms] for regex, row in group.resolved.items()
        },
        "names": {
            name: [group.names.get(name, 0), group.matched.get(name, 0)] for name in {*group.names, *group.matched}
        },
        "targets": {
            member_id: [
                [_text(id_), copied_set_order(partitions)] for id_, partitions in group.listed_target(member_id).items()
            ]
            for member_id in group.targets
        },
        "owners": _epochs(group.partition_epochs),
        "order": [member.member_id for member in group.in_order()],
        "members": {
            member.member_id: {
                "epoch": member.member_epoch,
                "previous": member.previous_member_epoch,
                "state": member.state.value,
                "instance": member.group_instance_id,
                "rack": member.rack_id,
                "rebalance": member.rebalance_timeout_ms,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "topics": sorted(member.subscribed_topic_names),
                "regex": member.subscribed_topic_regex,
                "assignor": member.server_assignor,
                "assigned": _epochs(member.assigned, has_epochs=group.behavior.has_assignment_epochs),
                "pending": _epochs(member.pending_revocation, has_epochs=group.behavior.has_assignment_epochs),
                "session": member.classic and member.classic.session_timeout_ms,
                "protocols": [[n, _text(m)] for n, m in member.classic.protocols] if member.classic else [],
            }
            for member in group.members.values()
        },
    }


def _streams_state(group):
    return {
        "type": STREAMS,
        "state": group.state,
        "epoch": group.group_epoch,
        "hash": group.metadata_hash,
        "validated": group.validated_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp": group.assignment_timestamp_ms,
        "topology": group.topology and group.topology.epoch,
        "configs": group.configs,
        "refresh": list(group.refresh),
        "shutdown": group.shutdown_by,
        "endpoint_epoch": group.endpoint_epoch,
        "targets": {member_id: [*map(_sorted_tasks, target)] for member_id, target in group.targets.items()},
        "active": {f"{name}_{partition}": process for (name, partition), process in group.active.items()},
        "standby": {f"{name}_{partition}": sorted(those) for (name, partition), those in group.standby.items()},
        "order": [member.member_id for member in group.in_order()],
        "members": {
            member.member_id: {
                "epoch": member.member_epoch,
                "previous": member.previous_member_epoch,
                "state": member.state.value,
                "instance": member.instance_id,
                "rack": member.rack_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance": member.rebalance_timeout_ms,
                "topology_epoch": member.topology_epoch,
                "process": member.process_id,
                "endpoint": member.endpoint and list(member.endpoint),
                "tags": dict(member.tags),
                "assigned": _held(member.assigned),
                "pending": _held(member.pending_revocation),
            }
            for member in group.members.values()
        },
    }


def _held(tasks):
    active = {name: {str(at): epoch for at, epoch in rows.items()} for name, rows in tasks.active.items()}
    return [active, *map(_sorted_tasks, tasks[1:])]


def _sorted_tasks(tasks):
    return {name: sorted(partitions) for name, partitions in tasks.items()}


def _epochs(held, *, has_epochs=True):
    return {
        _text(id_): {str(partition): epoch if has_epochs else 0 for partition, epoch in rows.items()}
        for id_, rows in held.items()
    }


class _Id:
    """Stands for a member id that will be different next time."""

    def __init__(self, origin):
        self.origin = origin


def _renamed(value, rename):
    """A copy of a message with its strings renamed."""
    if isinstance(value, list):
        return [_renamed(row, rename) for row in value]
    if isinstance(value, str | _Id):
        return rename(value)
    if hasattr(value, "FIELDS"):
        return type(value)(**{row[0]: _renamed(getattr(value, row[0]), rename) for row in value.FIELDS})
    return value


def _rows(by_group):
    """Offsets in the form of the oracle's answer."""
    return {
        group_id: {
            f"{topic}:{partition}": [
                row.offset, row.leader_epoch, row.metadata, row.commit_timestamp_ms,
                -1 if row.expire_timestamp_ms is None else row.expire_timestamp_ms,
            ]
            for (topic, partition), row in offsets.items()
        }
        for group_id, offsets in by_group.items()
    }  # fmt: skip


def _who(producer):
    return {} if producer is None else {"producer": producer[0], "epoch": producer[1]}


def _normal(group):
    if group.get("type") in ("consumer", STREAMS):
        return group
    for member in group["members"].values():
        member["assignment"] = _text(_sorted_assignment(base64.b64decode(member["assignment"])))
    return group | {"pending_joins": set(group["pending_joins"]), "pending_syncs": set(group["pending_syncs"])}


def _list_once(answer):
    """The answer with each group once. After an append has failed, and until the next one, Kafka may list a group
    twice: SnapshotRegistry restores what the operation had changed, but also keeps it in the snapshot as a former
    value."""
    answer.groups = [row for at, row in enumerate(answer.groups) if row not in answer.groups[:at]]


def _sorted(message, keeps_order=False):
    """The message with its lists of members of classic groups, groups, topics and partitions sorted, and without the
    wording of error messages. keeps_order: leave the members as they are."""
    for name in ("error_message", "status_detail"):
        if getattr(message, name, None):
            setattr(message, name, "said")
    for name, order in (
        ("members", "member_id"),
        ("groups", "group_id"),
        ("results", "group_id"),
        ("topics", "name"),
        ("partitions", "partition_index"),
        ("topic_partitions", "topic_id"),
        ("assigned_partitions", "topic_id"),
        ("partitions_pending_revocation", "topic_id"),
        ("active_tasks", "subtopology_id"),
        ("standby_tasks", "subtopology_id"),
        ("subtopologies", "subtopology_id"),
        ("state_changelog_topics", "name"),
        ("repartition_source_topics", "name"),
        ("topic_configs", "key"),
        ("client_tags", "key"),
        ("status", "status_code"),
    ):
        rows = getattr(message, name, None)
        if isinstance(rows, list) and rows and isinstance(rows[0], int):
            epochs = getattr(message, "assignment_epochs", None) or [0] * len(rows)
            pairs = sorted(zip(rows, epochs, strict=True))
            message.partitions = [partition for partition, _ in pairs]
            if hasattr(message, "assignment_epochs"):
                message.assignment_epochs = [epoch for _, epoch in pairs]
        elif isinstance(rows, list) and rows and not isinstance(rows[0], str):
            # In a consumer group the order of members decides who gets what: it must be Kafka's.
            if name != "members" or not (keeps_order or hasattr(message, "assignment_epoch")):
                rows.sort(key=lambda row: getattr(row, order if hasattr(row, order) else f"topic_{order}"))
            for row in rows:
                _sorted(row, keeps_order)
    if getattr(message, "subscribed_topic_names", None):
        message.subscribed_topic_names.sort()
    if isinstance(getattr(message, "assignment", None), bytes):
        message.assignment = _sorted_assignment(message.assignment)
    if getattr(message, "member_assignment", None):
        message.member_assignment = _sorted_assignment(message.member_assignment)
    for row in getattr(message, "partitions_by_user_endpoint", None) or ():
        for partitions in (row.active_partitions, row.standby_partitions):
            # Two subtopologies may read one topic.
            partitions.sort(key=lambda each: (each.topic, sorted(each.partitions)))
            for each in partitions:
                each.partitions.sort()
    for name in ("value", "assignment", "target_assignment", "topology"):
        inner = getattr(message, name, None)
        if hasattr(inner, "FIELDS"):
            _sorted(inner, keeps_order)
    return message


def _sorted_assignment(data):
    """An assignment of the consumer protocol with its topics sorted; other bytes unchanged."""
    try:
        found = decode_assignment(data)
    except DecodeError:
        return data
    return encode_assignment(
        replace(found, partitions=dict(sorted(found.partitions.items())), version=min(found.version, 3))
    )


def _errors(message):
    """The names of the errors anywhere in a response."""
    rows = [message]
    for row in rows:
        for name in ("members", "groups", "results", "topics", "partitions"):
            rows += [inner for inner in getattr(row, name, None) or () if hasattr(inner, "FIELDS")]
    return {ErrorCode(row.error_code).name for row in rows if hasattr(row, "error_code")} or {"NONE"}


def _brief(message):
    """The message without what is empty or a default, for traces."""
    if isinstance(message, list):
        return "[" + ", ".join(map(_brief, message)) + "]"
    if not hasattr(message, "FIELDS"):
        return repr(message)
    fields = ((row[0], getattr(message, row[0])) for row in message.FIELDS)
    shown = (
        f"{name}={_brief(value)}" for name, value in fields if value not in (None, [], b"", "") and name != "metadata"
    )
    return f"{type(message).__name__}({', '.join(shown)})"


def _text(data):
    return base64.b64encode(data).decode()
