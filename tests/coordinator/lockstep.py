"""Our coordinator and Kafka's own, step by step on one clock: each must do what the other does.

Kafka goes first, and its new member ids become ours. Everything else must be equal: replies byte by byte (but for the
order in which members, groups, topics and partitions are listed), records, timers, and the whole state of every group
and of every offset."""

import base64
import json
import tempfile
from collections import Counter
from pathlib import Path

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.outcome import Millis, Producer, Request, Ticket, TimerKey, TimerKind
from kgm.coordinator.runtime import AppendError, Runtime
from kgm.coordinator.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol import codec
from kgm.protocol.apis import response_class
from kgm.records.record import decode_record, encode_record
from tests.coordinator.harness import compacted, read_entry
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command
from tests.kafka.process import Child

#: Kafka never answers a parked request that a repeat of the same member replaces, nor a leaver's parked SyncGroup.
NEVER_ANSWERED = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID}
KAFKAS_NAMES = {"offset_metadata_max_bytes": "offset.metadata.max.bytes"}


class KafkasCoordinator:
    """The JVM that answers line by line."""

    def __init__(self):
        self._temp = tempfile.TemporaryDirectory(prefix="kgm-coordinator-")
        path = classpath("coordinator-tests")
        classes = compiled([Path(__file__).parent / "java" / "CoordinatorOracle.java"], path)
        main_class = "org.apache.kafka.coordinator.group.CoordinatorOracle"
        command = java_command(main_class, heap_mb=256, class_path=f"{classes}:{path}")
        self._child = Child(command, log=Path(self._temp.name) / "log", pipe_stdout=True)

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
    """Both coordinators. `trace` tells what was done, for the report of a difference."""

    def __init__(self, kafka, *, seed=0, **settings):
        self.kafka = kafka
        self.seed = self.first_seed = seed
        self.first_settings = settings
        self.settings = BrokerSettings(**settings)
        self.now = Millis(1_000_000)
        self.engine = Coordinator(settings=self.settings, new_member_id=self._new_member_id)
        self.runtime = Runtime(self.engine, append=self._append)
        self.fail = None
        self.log = []
        self.appended = []
        self.requests = {}
        self.answers = {}
        self.ids = []
        self.new_ids = []
        # What was done, to be done again by `redo`: ids stand in it by (number of the deed, ids it gave out before).
        self.deeds = []
        self.origins = {}
        self.last_ticket = 0
        self.answer = {"groups": {}, "timers": {}, "offsets": {}, "pending": {}}
        self.trace = [f"settings {settings}"]
        self.redoing = None
        self.seen = Counter()
        self.kafka.ask(op="start", now=self.now, seed=self.seed, settings=self._kafka_settings())

    # -- events

    def request(self, message, version, *, client_id="client", fail=None):
        self._deed("request", self._symbolic(message), version, client_id=client_id, fail=fail)
        self.last_ticket += 1
        ticket = Ticket(self.last_ticket)
        self.trace.append(f"{self.now} #{ticket} v{version} {_brief(message)}" + (f" FAIL {fail.name}" if fail else ""))
        while (timer := self.runtime.next_timer()) is not None and timer.deadline_ms <= self.now:
            self._fire(timer, None)
        self.requests[ticket] = (message, version)
        self.answer = self.kafka.ask(
            op="request", ticket=ticket, api=message.API_KEY, version=version, client_id=client_id,
            data=_text(codec.encode(message, version)), fail=fail and fail.name,
        )  # fmt: skip
        request = Request(message=message, version=version, client_id=client_id, client_host="/127.0.0.1")
        self._ours(lambda: self.runtime.submit(request, ticket=ticket, now=self.now), fail)
        return ticket

    def marker(self, producer, *, commit):
        """A producer's transaction ends."""
        self._deed("marker", producer, commit=commit)
        producer = Producer(*producer)
        self.trace.append(f"{self.now} {'commit' if commit else 'abort'} {tuple(producer)}")
        self.answer = self.kafka.ask(op="marker", **_who(producer), commit=commit)
        self.log.append((producer, commit))
        self._ours(lambda: self._end_transaction(producer, commit), None)

    def sleep(self, ms, *, fail=None):
        self._deed("sleep", ms, fail=fail)
        until = Millis(self.now + ms)
        self.trace.append(f"{self.now} sleep {ms}" + (f" FAIL {fail.name}" if fail else ""))
        while (timer := self.runtime.next_timer()) is not None and timer.deadline_ms <= until:
            self._fire(timer, fail)
        self.now = until
        self.answer = self.kafka.ask(op="sleep", now=self.now)

    def unload(self):
        self._deed("unload")
        self.trace.append("unload")
        self.answer = self.kafka.ask(op="unload")
        # Kafka's runtime drops all timers.
        self.answer["timers"] = {}
        self._ours(lambda: self.runtime.unload(now=self.now), None)

    def reload(self, *, compact=False, **settings):
        """Both start again from the log, perhaps with other settings."""
        self._deed("reload", compact=compact, **settings)
        self.seed += 1
        self.trace.append(f"reload {'compacted ' if compact else ''}{settings}")
        self.settings = BrokerSettings(**settings)
        self.engine = Coordinator(settings=self.settings, new_member_id=self._new_member_id)
        self.runtime = Runtime(self.engine, append=self._append)
        self.requests.clear()
        self.kafka.ask(op="start", now=self.now, seed=self.seed, settings=self._kafka_settings())
        if compact:
            self.log = compacted(self.log)
        for entry, producer, commit in map(read_entry, self.log):
            if entry is None:
                self.kafka.ask(op="marker", **_who(producer), commit=commit)
                continue
            key, value = encode_record(entry)
            self.kafka.ask(op="replay", key=_text(key), value=None if value is None else _text(value), **_who(producer))
        self.answer = self.kafka.ask(op="load")
        self._ours(self._load, None)

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
        self.answer = self.kafka.ask(
            op="fire", key=_kafka_key(timer.key), now=timer.deadline_ms, fail=fail and fail.name
        )
        self.now = max(self.now, timer.deadline_ms)
        self._ours(lambda: self.runtime.fire(timer), fail)

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
        """Do these deeds of another lockstep, which had the same settings at first."""
        for number, name, args, kwargs in deeds:
            self.redoing = number
            getattr(self, name)(*map(self._concrete, args), **kwargs)

    def _concrete(self, value):
        ids = {origin: member_id for member_id, origin in self.origins.items()}
        return _renamed(value, lambda text: ids.get(text.origin, "lost") if isinstance(text, _Id) else text)

    # -- comparison

    def _ours(self, act, fail):
        self.fail, self.appended, self.producer = fail, [], None
        self._find_new_ids()
        try:
            replies = act()
        finally:
            self.fail = None
        for reply in replies:
            assert reply.ticket in self.requests, f"ticket {reply.ticket} is answered twice"
        self._compare_replies(replies)
        self._compare_records()
        self._compare_groups()
        self._compare_offsets()
        self._compare_timers()

    def _compare_replies(self, replies):
        ours = {reply.ticket: reply.message for reply in replies}
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
            self.answers[ticket] = (version, expected)
            assert ticket in ours, f"Kafka answers {ticket}: {expected}"
            # What we say must also be what we can write.
            said = codec.decode(response_class(api), codec.encode(ours[ticket], version), version)
            assert _sorted(said) == _sorted(expected), f"ticket {ticket}\nours   {said}\nKafka's {expected}"
            self.seen.update(f"{type(message).__name__} {error}" for error in _errors(expected))
            member_id = getattr(expected, "member_id", "")
            if member_id and member_id not in self.origins:
                self._note_id(member_id)

    def _compare_records(self):
        theirs = [
            (base64.b64decode(key), None if value is None else base64.b64decode(value))
            for key, value, _ in self.answer["records"]
        ]
        assert {producer for _, _, producer in self.answer["records"]} <= {
            -1 if self.producer is None else self.producer.producer_id
        }
        ours = [encode_record(record) for record in self.appended]
        if all(value is None for _, value in theirs):
            # The order of tombstones hangs on a hash map.
            theirs.sort()
            ours.sort()
        assert [_sorted(decode_record(*row)) for row in ours] == [_sorted(decode_record(*row)) for row in theirs]
        assert [(key[:2], value and value[:2]) for key, value in ours] == [
            (key[:2], value and value[:2]) for key, value in theirs
        ]

    def _compare_groups(self):
        ours = {group_id: _state(group) for group_id, group in self.engine._groups.items()}
        theirs = {group_id: _normal(group) for group_id, group in self.answer["groups"].items()}
        # A simple group's first timestamp is not in the log: Kafka takes the time of replay, we take none.
        for group_id, group in theirs.items():
            if group_id in ours and ours[group_id]["timestamp"] == -1:
                group["timestamp"] = -1
        assert ours.keys() == theirs.keys()
        for group_id, group in ours.items():
            assert {name: value for name, value in group.items() if value != theirs[group_id][name]} == {
                name: theirs[group_id][name] for name, value in group.items() if value != theirs[group_id][name]
            }

    def _compare_offsets(self):
        offsets = self.engine.offsets
        assert _rows(offsets.by_group) == self.answer["offsets"]
        assert {str(id_): _rows(by_group) for id_, by_group in offsets.pending.items()} == self.answer["pending"]

    def _compare_timers(self):
        # Kafka leaves some timers to fire without effect: those of members and of new groups that are gone. Another
        # one counts groups for metrics.
        meant = {"expire-group-metadata"}
        for group_id, group in self.answer["groups"].items():
            meant.add(_kafka_key(TimerKey(TimerKind.SYNC, group_id)))
            if group["state"] == "PreparingRebalance":
                meant.add(_kafka_key(TimerKey(TimerKind.JOIN, group_id)))
            for member_id in (*group["members"], *group["pending_joins"]):
                meant.add(_kafka_key(TimerKey(TimerKind.SESSION, group_id, member_id)))
        theirs = {key: deadline for key, deadline in self.answer["timers"].items() if key in meant}
        assert {_kafka_key(key): deadline for key, deadline in self.engine.deadlines.items()} == theirs

    # -- Kafka's choices

    def _find_new_ids(self):
        known = self.origins
        found = [
            member_id
            for group in self.answer["groups"].values()
            for member_id in (*group["members"], *group["pending_joins"])
        ]
        records = [
            decode_record(base64.b64decode(key), base64.b64decode(value)).value
            for key, value, _ in self.answer["records"]
            if value is not None
        ]
        found += [member.member_id for value in records for member in getattr(value, "members", ())]
        for ticket, data in self.answer["replies"]:
            message, version = self.requests[ticket]
            reply = codec.decode(response_class(message.API_KEY), base64.b64decode(data), version)
            if getattr(reply, "error_code", 0) == ErrorCode.MEMBER_ID_REQUIRED:
                found.append(reply.member_id)
        self.new_ids = [member_id for member_id in dict.fromkeys(found) if member_id not in known]

    def _new_member_id(self, prefix):
        """The id that Kafka has just given out; a made-up one if it did not survive the step there."""
        if not self.new_ids:
            return f"{prefix}-lost-{self.last_ticket}"
        (member_id,) = self.new_ids
        assert member_id.startswith(f"{prefix}-"), (member_id, prefix)
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
            if not name.startswith("offsets_topic")
        }


def _kafka_key(key):
    match key.kind:
        case TimerKind.SESSION:
            return f"heartbeat-{key.group_id}-{key.member_id}"
        case TimerKind.OFFSET_EXPIRATION:
            return "expire-group-metadata"
        case kind:
            return f"{kind.value}-{key.group_id}"


def _state(group):
    return {
        "state": group.state.value,
        "previous": group.previous_state.value,
        "timestamp": -1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "pending_joins": set(group.pending_joins),
        "pending_syncs": set(group.pending_syncs),
        "new_member_added": group.new_member_added,
        "topics": None if group.subscribed_topics is None else sorted(group.subscribed_topics),
        "static": group.static_ids,
        "members": {
            member.member_id: {
                "instance": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance": member.rebalance_timeout_ms,
                "session": member.session_timeout_ms,
                "assignment": _text(member.assignment),
                "new": member.is_new,
                "joining": member.member_id in group.parked_joins,
                "syncing": member.member_id in group.parked_syncs,
                "protocols": [[name, _text(metadata)] for name, metadata in member.protocols],
            }
            for member in group.members.values()
        },
    }


class _Id:
    """Stands for a member id that will be another one the next time."""

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
    return group | {"pending_joins": set(group["pending_joins"]), "pending_syncs": set(group["pending_syncs"])}


def _sorted(message):
    """The message with its lists of members and groups in one order."""
    for name, order in (
        ("members", "member_id"),
        ("groups", "group_id"),
        ("results", "group_id"),
        ("topics", "name"),
        ("partitions", "partition_index"),
    ):
        rows = getattr(message, name, None)
        if isinstance(rows, list):
            rows.sort(key=lambda row: getattr(row, order))
            for row in rows:
                _sorted(row)
    value = getattr(message, "value", None)
    if value is not None:
        _sorted(value)
    return message


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
