"""What the records of a group of the consumer protocol mean (KIP-848): types 3 to 8, in the order of their offsets.

A coordinator writes what one request changed as one batch: first the member (type 5, or the tombstones of its types 8,
7 and 5), then the group's epoch (3) if it rose, the target assignment (7, closed by 6), and what a member has now (8);
see GroupMetadataManager and TargetAssignmentBuilder. So what changed since the last epoch is why it rose, and what a
member has is exact, to the record. A static member that stops has the epoch -2 until it is back (another member id with
the same instance id, no new epoch) or its session expires.

A leave and an expiry are the same tombstones. The session timeout of members of this protocol is the broker's and not
in the log; `SESSION_MS` is Kafka's default."""

from collections.abc import Mapping, Sequence
from typing import Any

from kgm.history.causes.classic_causes import RETURN_WITHIN_MS, Cause, Confidence, Departed, Event, Gone, who
from kgm.history.causes.consumer_causes import HEARTBEAT_MS, Epoch, departure, explain
from kgm.history.facts.advice import advice
from kgm.history.facts.changes import change_row
from kgm.history.facts.commit_windows import Window
from kgm.history.facts.consumer_epochs import Epochs
from kgm.history.facts.consumer_ownership import ConsumerOwners, Held, Names, places_of
from kgm.history.facts.daily_totals import Days
from kgm.history.facts.restarts import Restarts, identity
from kgm.history.facts.tenures import Seats
from kgm.history.reconstruct.classic_snapshots import Change, ChangeKind, Member
from kgm.history.rows import Row, Rows, position
from kgm.records.messages.group_metadata_value import MemberMetadata

TYPE = "consumer"
#: group.consumer.session.timeout.ms
SESSION_MS = 45_000
GROUP, PARTITIONS, MEMBER, TARGET, TARGET_MEMBER, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
KINDS = (GROUP, PARTITIONS, MEMBER, TARGET, TARGET_MEMBER, CURRENT, REGEX)
AWAY = -2
_STATES = {0: "stable", 1: "unrevoked", 2: "unreleased"}
_RECENT = 50


class ConsumerGroup:
    """A group on its way through its records. `state()` is all that `ConsumerGroup(..., state=...)` needs to go on."""

    def __init__(
        self, rows: Rows, partition: int, group_id: str, names: Names, restarts: Restarts, state: Row | None = None,
        *, session_ms: int = SESSION_MS,
    ) -> None:  # fmt: skip
        state = state or {}
        self.rows, self.partition, self.group_id, self.session_ms = rows, partition, group_id, session_ms
        self.members: dict[str, Row] = state.get("members", {})
        self.current: dict[str, Row] = state.get("current", {})
        self.target: dict[str, list[Any]] = state.get("target", {})
        self.planned: dict[str, str] = state.get("planned", {})
        self.group: Row = state.get("group", {"epoch": None, "hash": None, "assigned": None, "whole": True})
        self.pending: Row = state.get("pending", _nothing())
        self.owners = ConsumerOwners(rows, self._base, names, state.get("owners"))
        self.seats = Seats(state.get("seats"))
        self.restarts = restarts
        self.days = Days(state.get("days"))
        self.epochs = Epochs(rows, state.get("epochs", []))
        self.recent: list[Row] = state.get("recent", [])

    def state(self) -> Row:
        """What has to be kept, as JSON has it."""
        return {
            "members": self.members, "current": self.current, "target": self.target, "planned": self.planned,
            "group": self.group, "pending": self.pending, "owners": self.owners.state(),
            "seats": self.seats.open, "days": self.days.days, "epochs": self.epochs.recent, "recent": self.recent,
        }  # fmt: skip

    def commits(self, windows: Sequence[Window]) -> None:
        """Commits since the last record."""
        for window in windows:
            self.owners.committed(window)

    def record(self, kind: int, base: Row, key: Row, value: Row | None, *, complete: bool) -> None:
        """The next record of the group. base: where it stands; complete: no offset is missing since the one before."""
        at = self._base | base
        self.group["at"] = base["timestamp"]
        if not complete:
            self.group["whole"] = False
            self.pending["broken"] = True
        if self.pending["leaving"] and self.pending["leaving"][-1]["at"]["timestamp"] != base["timestamp"]:
            self._left()
        match kind:
            case 3:
                self._group(at, value)
            case 5:
                self._member(at, key["member_id"], value)
            case 6:
                self._assigned(at, value)
            case 7:
                self._target(key["member_id"], value)
            case 8:
                self._current(at, key["member_id"], value)
            case _:
                self.pending["regex"] |= kind == REGEX

    def finish(self) -> None:
        """Put what is open at the end of the records."""
        self.days.put(self.rows, self._base)
        for row in self.seats.open.values():
            self.rows.put("silver_seat", row)
        self.owners.finish()
        sessions = [row["session_timeout_ms"] for row in self.seats.open.values()]
        now, when = max(sessions, default=self.session_ms), self.group.get("at", 0)
        self.rows.put("gold_timeout_advice", advice(self._base, when, now, self.restarts.absences))

    @property
    def _base(self) -> Row:
        return {"partition": self.partition, "group_id": self.group_id, "group_type": TYPE}

    @property
    def _generation(self) -> int:
        epoch: int | None = self.group["epoch"]
        return 0 if epoch is None else epoch

    # --- members

    def _member(self, base: Row, member_id: str, value: Row | None) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                self._leaving(base, member_id, old)
            self.current.pop(member_id, None)
            self.target.pop(member_id, None)
            return
        new = {
            "instance": value["instance_id"], "client_id": value["client_id"], "host": value["client_host"],
            "topics": sorted(value["subscribed_topic_names"] or ()), "regex": value["subscribed_topic_regex"] or "",
            "assignor": value["server_assignor"], "rebalance": value["rebalance_timeout_ms"], "at": base["timestamp"],
            "session": None, "away": None, "unrevoked": None, "rack": value["rack_id"],
        }  # fmt: skip
        if value["classic_member_metadata"] is not None:
            new["session"] = value["classic_member_metadata"]["session_timeout_ms"]
        self.members[member_id] = new
        if old is None:
            self._came(base, member_id, new)
            return
        new |= {"away": old["away"], "unrevoked": old["unrevoked"]}
        if (old["topics"], old["regex"]) != (new["topics"], new["regex"]):
            change = self._change(base, ChangeKind.RESUBSCRIBED, member_id, new)
            self.pending["resubscribed"].append([member_id, base, new])
            self._put_change(base, change, new, old)
        elif old["assignor"] != new["assignor"]:
            self.pending["assignor"] = True

    def _leaving(self, base: Row, member_id: str, old: Row) -> None:
        """A member's record was deleted: it left, unless the next record gives its seat to another member id."""
        held = self.current.get(member_id)
        last, cadence = self.owners.commits_of(places_of(held), base["offset"])
        self.pending["leaving"].append({
            "member_id": member_id, "at": base, "member": old, "last": last, "cadence": cadence,
            "held": len(places_of(held)),
        })  # fmt: skip
        self.owners.gone(member_id, base, self._generation)
        del self.members[member_id]

    def _left(self) -> None:
        """Nobody took their seats."""
        for gone in self.pending["leaving"]:
            base, data = gone["at"], gone["member"]
            change = self._change(base, ChangeKind.LEFT, gone["member_id"], data)
            how = self._how(gone, change)
            self._put_change(base, change, None, data, gone["held"])
            self.seats.leave(
                self.rows, change.seat, base["offset"], base["timestamp"], self._generation, cause=how.cause.value,
                confidence=how.confidence.value,
            )  # fmt: skip
        self.pending["left"] += self.pending["leaving"]
        self.pending["leaving"] = []

    def _how(self, gone: Row, change: Change) -> Departed:
        data = gone["member"]
        return departure(
            Gone(change=change, last_commit=gone["last"], cadence_ms=gone["cadence"]), change.timestamp,
            away=data["away"], heard=data["at"], unrevoked=data["unrevoked"],
        )  # fmt: skip

    def _came(self, base: Row, member_id: str, new: Row) -> None:
        instance = new["instance"]
        before = None
        if instance is not None:
            before = next((each for each in self.pending["leaving"] if each["member"]["instance"] == instance), None)
        if before is None:
            change = self._change(base, ChangeKind.JOINED, member_id, new)
            self.pending["joined"].append([member_id, base, new])
            self._put_change(base, change, new, None)
        else:
            self.pending["leaving"].remove(before)
            change = self._change(base, ChangeKind.REPLACED, member_id, new, before["member_id"])
            self._put_change(base, change, new, before["member"], before["held"])
            self._absorbed(base, change, before)
        self.seats.take(self.rows, {
            **self._base, "seat": change.seat, "member_id": member_id, "group_instance_id": instance,
            "client_id": new["client_id"], "client_host": new["host"], "session_timeout_ms": self._session(new),
            "from_offset": base["offset"], "from_timestamp": base["timestamp"], "from_generation": self._generation,
            "known_from": self.group["whole"], "to_offset": None,
        }, cause="replaced", confidence=Confidence.CERTAIN.value)  # fmt: skip

    def _absorbed(self, base: Row, change: Change, before: Row) -> None:
        away = before["member"]["away"]
        low, high = (before["member"]["at"], base["timestamp"]) if away is None else (away, away)
        self.restarts.note(
            self.rows, base, change, down_at_min=low, down_at_max=high, up_at=base["timestamp"], absorbed=True,
            old_member_id=before["member_id"], complete=not self.pending["broken"], confidence=self._sure.value,
        )  # fmt: skip
        line = f"{change.seat}: {change.member.record.member_id} took the place of {before['member_id']}"
        self._event(base, Event.ABSORBED, [who(change, "returned")], [line, "the group's epoch did not rise for that"])
        self.days.add(base["timestamp"], absorbed=1, replaced=1)

    def _change(self, base: Row, kind: ChangeKind, member_id: str, data: Row, old: str | None = None) -> Change:
        record = MemberMetadata(
            member_id=member_id, group_instance_id=data["instance"], client_id=data["client_id"],
            client_host=data["host"], rebalance_timeout=data["rebalance"], session_timeout=self._session(data),
        )  # fmt: skip
        member = Member(record, frozenset(data["topics"]), None)
        return Change(
            offset=base["offset"], timestamp=base["timestamp"], generation=self._generation, kind=kind,
            seat=member.seat, member=member, old_member_id=old, absorbed=True if old is not None else None,
            complete=not self.pending["broken"],
        )  # fmt: skip

    def _session(self, data: Row) -> int:
        session: int | None = data["session"]
        return self.session_ms if session is None else session

    def _put_change(self, base: Row, change: Change, new: Row | None, old: Row | None, held: int | None = None) -> None:
        if held is None:
            held = len(places_of(self.current.get(change.member.record.member_id)))
        topics = tuple(each["topics"] if each else () for each in (old, new))
        row = change_row(base, change, (topics[0], topics[1]), (held, held if new else 0))
        self.rows.put("silver_member_change", row)

    # --- epochs

    @property
    def _sure(self) -> Confidence:
        return Confidence.CERTAIN if self.group["whole"] else Confidence.LIKELY

    def _group(self, base: Row, value: Row | None) -> None:
        if value is None:
            self._removed(base)
            return
        self._left()
        old, new = self.group["epoch"], value["epoch"]
        hashes = self.group["hash"], value["metadata_hash"]
        self.group |= {"epoch": new, "hash": value["metadata_hash"]}
        joined = [self._change(at, ChangeKind.JOINED, name, data) for name, at, data in self.pending["joined"]]
        if old is None and joined and all(data["session"] is not None for _, _, data in self.pending["joined"]):
            line = "its members came from the classic protocol in the same moment"
            self._event(base, Event.CONVERTED, [who(each, "member") for each in joined], [line])
            for each in joined:
                self.restarts.stays(each.member)
        elif new != old and (old is not None or not self.pending["broken"]):
            self._epoch(base, joined, hashes=hashes, old=new - 1 if old is None else old)
        self._remember(base)
        self.epochs.rose(base, value, len(self.members), complete=self.group["whole"])

    def _epoch(self, base: Row, joined: Sequence[Change], *, hashes: tuple[int | None, int], old: int) -> None:
        left = [(gone, self._change(gone["at"], ChangeKind.LEFT, gone["member_id"], gone["member"]))
                for gone in self.pending["left"]]  # fmt: skip
        resubscribed = [
            self._change(at, ChangeKind.RESUBSCRIBED, name, data) for name, at, data in self.pending["resubscribed"]
        ]
        back = self._returned(base, joined)
        verdict = explain(Epoch(
            joined=joined, returned=back, departed=[self._how(gone, change) for gone, change in left],
            resubscribed=resubscribed, hashes=hashes, regex=self.pending["regex"],
            assignor=self.pending["assignor"], empty=not self.members, known=self.group["whole"],
            broken=self.pending["broken"],
        ))  # fmt: skip
        complete = not self.pending["broken"]
        row = {
            **base, "from_generation": old, "to_generation": self.group["epoch"],
            "lost_rounds": 0 if complete else None, "moved": 0, "kept": 0, "complete": complete,
            "cause": verdict.cause.value, "confidence": verdict.confidence.value,
            "also": [each.value for each in verdict.also], "who": list(verdict.who),
            "evidence": list(verdict.evidence), "source": "log", "reason": None,
            "inferred_cause": verdict.cause.value, "inferred_confidence": verdict.confidence.value,
            "members_before": len(self.members) - len(joined) + len(left), "members_after": len(self.members),
            "joined": len(joined), "left": len(left), "replaced": 0, "unowned_ms": 0,
            "stopped_partition_ms_min": 0, "stopped_partition_ms_max": 0,
        }  # fmt: skip
        self.rows.put("gold_rebalance", row)
        since = base["timestamp"] - RETURN_WITHIN_MS
        self.recent = [each for each in self.recent[-_RECENT:] if each["timestamp"] > since]
        self.recent.append(row)
        self._restarted(base, back, row)
        self.days.add(
            base["timestamp"], cause=row["cause"], rebalances=1, joined=row["joined"], left=row["left"],
            members=len(self.members),
        )  # fmt: skip
        self.days.close(self.rows, self._base, self.recent[0]["timestamp"])

    def _returned(self, base: Row, joined: Sequence[Change]) -> list[tuple[Change, Row]]:
        """Who of those that joined is back from an earlier absence."""
        found = []
        for change in joined:
            earlier = self.restarts.back(change, base["timestamp"])
            if earlier is not None and base["timestamp"] - earlier["at"] <= RETURN_WITHIN_MS:
                found.append((change, earlier))
        return found

    def _restarted(self, base: Row, back: Sequence[tuple[Change, Row]], row: Row) -> None:
        for change, earlier in back:
            self.restarts.note(
                self.rows, base, change, down_at_min=earlier["down_min"], down_at_max=earlier["down_max"],
                up_at=change.timestamp, absorbed=False, old_member_id=earlier["member_id"],
                complete=not self.pending["broken"], confidence=Confidence.LIKELY.value,
            )  # fmt: skip
            for each in self.recent:
                if each["offset"] == earlier["offset"] and Cause.BOUNCE.value not in (each["cause"], *each["also"]):
                    line = f"{earlier['member_id']} came back as {change.member.record.member_id}"
                    each["also"] = [*each["also"], Cause.BOUNCE.value]
                    each["evidence"] = [*each["evidence"], f"{line} in epoch {row['to_generation']}"]
                    self.rows.put("gold_rebalance", each)

    def _remember(self, base: Row) -> None:
        """What changed has been explained; who went may come back."""
        for gone in self.pending["left"]:
            data, at = gone["member"], gone["at"]["timestamp"]
            change = self._change(gone["at"], ChangeKind.LEFT, gone["member_id"], data)
            low, high = max(gone["last"] or 0, data["at"]), at
            if data["away"] is not None:
                low = high = data["away"]
            elif self._how(gone, change).cause is Cause.SESSION_EXPIRY:
                high = max(at - self._session(data) + HEARTBEAT_MS, low)
            self.restarts.gone.setdefault(identity(change.member), []).append({
                "seat": change.seat, "member_id": gone["member_id"], "at": at, "offset": base["offset"],
                "session": self._session(data), "down_min": low, "down_max": high,
            })  # fmt: skip
        self.restarts.forget(base["timestamp"])
        self.pending = _nothing()

    def _removed(self, base: Row) -> None:
        gone = self.pending["leaving"]
        if gone:
            # An empty group has nobody whose records go with it.
            changes = [self._change(base, ChangeKind.LEFT, each["member_id"], each["member"]) for each in gone]
            for each in changes:
                self.restarts.converted(each.member, base["timestamp"], base["timestamp"])
            people = [who(each, "member") for each in changes]
            self._event(base, Event.CONVERTED, people, ["its records went while it had members: it is classic now"])
        elif self.group["epoch"] is not None:
            self._event(base, Event.REMOVED, [], ["the group's records were deleted: by an admin, or for its age"])
        for seat in list(self.seats.open):
            self.seats.leave(
                self.rows, seat, base["offset"], base["timestamp"], self._generation, cause=Event.REMOVED.value,
                confidence=self._sure.value,
            )  # fmt: skip
        self.members, self.current, self.target, self.planned = {}, {}, {}, {}
        self.pending = _nothing()
        self.group = {"epoch": None, "hash": None, "assigned": None, "whole": True, "at": base["timestamp"]}

    def _event(self, base: Row, event: Event, people: Sequence[Row], evidence: Sequence[str]) -> None:
        complete = not self.pending["broken"]
        self.rows.put("gold_event", {
            **base, "generation": self._generation, "event": event.value, "who": list(people),
            "confidence": (self._sure if complete else Confidence.UNKNOWN).value, "evidence": list(evidence),
            "complete": complete,
        })  # fmt: skip

    # --- assignments

    def _target(self, member_id: str, value: Row | None) -> None:
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = _pairs(value["topic_partitions"])

    def _assigned(self, base: Row, value: Row | None) -> None:
        if value is None:
            return
        epoch = value["assignment_epoch"]
        self.group["assigned"] = epoch
        planned = {
            f"{topic} {number}": self._seat(member_id)
            for member_id, pairs in self.target.items()
            for topic, number in pairs
        }
        both = self.planned.keys() & planned.keys()
        kept = sum(self.planned[place] == planned[place] for place in both)
        for row in self.recent:
            if row["to_generation"] == epoch:
                row |= {"moved": len(both) - kept, "kept": kept, "assigned": len(planned)}
                self._grown(row, self.planned, planned)
                self.rows.put("gold_rebalance", row)
                self.days.add(row["timestamp"], moved=row["moved"])
        self.planned = planned
        self.epochs.answered(base, epoch)
        self.group["lagging"] = [each for each in self.members if not self._is_settled(each, epoch)]
        self._settled(base)

    def _grown(self, row: Row, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Topic metadata changed: did a topic get more partitions?"""
        if row["cause"] != Cause.METADATA.value:
            return
        topics = {place.split(" ")[0] for place in before}
        new = [place for place in after.keys() - before.keys() if place.split(" ")[0] in topics]
        if new:
            line = f"{len(new)} partitions were assigned that were not there before"
            self.days.recount(row["timestamp"], row["cause"], Cause.PARTITIONS.value)
            row |= {
                "cause": Cause.PARTITIONS.value, "inferred_cause": Cause.PARTITIONS.value,
                "evidence": [*row["evidence"], line],
            }  # fmt: skip

    def _seat(self, member_id: str) -> str:
        member = self.members.get(member_id)
        return member_id if member is None or member["instance"] is None else member["instance"]

    def _current(self, base: Row, member_id: str, value: Row | None) -> None:
        seat = self._seat(member_id)
        row = {
            **base, "member_id": member_id, "state": "gone",
            "group_instance_id": None if member_id not in self.members else self.members[member_id]["instance"],
        }  # fmt: skip
        if value is None:
            self.rows.put("silver_member_state", row)
            return
        epoch, member = value["member_epoch"], self.members.get(member_id)
        state = "away" if epoch == AWAY else _STATES.get(value["state"], "unknown")
        row |= {
            "member_epoch": epoch, "previous_member_epoch": value["previous_member_epoch"], "state": state,
            "assigned": _lists(value["assigned_partitions"]), "pending": _lists(value["partitions_pending_revocation"]),
        }  # fmt: skip
        self.rows.put("silver_member_state", row if member is None else row | _described(member))
        held: Held = {
            "epoch": epoch, "state": state, "assigned": _pairs(value["assigned_partitions"]),
            "pending": _pairs(value["partitions_pending_revocation"]),
        }  # fmt: skip
        self.current[member_id] = held
        if member is not None:
            self._life(base, member_id, member, state)
        unowned = self.owners.has(member_id, seat, held, base, self._generation, known=self.group["whole"])
        self._unowned(unowned)
        lagging = self.group.get("lagging", [])
        if member_id in lagging and self._is_settled(member_id, self.group["assigned"]):
            lagging.remove(member_id)
            self._settled(base)

    def _life(self, base: Row, member_id: str, member: Row, state: str) -> None:
        member["at"] = base["timestamp"]
        member["unrevoked"] = (member["unrevoked"] or base["timestamp"]) if state == "unrevoked" else None
        if state == "away" and member["away"] is None:
            member["away"] = base["timestamp"]
            line = "it stopped, and keeps its seat until it is back or its session expires"
            change = self._change(base, ChangeKind.LEFT, member_id, member)
            self._event(base, Event.AWAY, [who(change, "away")], [f"{change.seat}: {line}"])
        elif state != "away":
            member["away"] = None

    def _unowned(self, ms: int) -> None:
        for row in self.recent:
            if ms and row["to_generation"] == self.group["assigned"]:
                row["unowned_ms"] += ms
                row["stopped_partition_ms_min"] = row["stopped_partition_ms_max"] = row["unowned_ms"]
                self.rows.put("gold_rebalance", row)
                self.days.add(row["timestamp"], stopped_partition_ms_min=ms, stopped_partition_ms_max=ms)

    def _is_settled(self, member_id: str, epoch: int) -> bool:
        held = self.current.get(member_id)
        return held is not None and (held["state"] == "away" or (held["state"] == "stable" and held["epoch"] == epoch))

    def _settled(self, base: Row) -> None:
        if not self.group.get("lagging"):
            self.epochs.settled(base)


def _nothing() -> Row:
    """What changed since the last epoch, as JSON has it: nothing yet. broken: an offset is missing since then."""
    return {
        "joined": [], "leaving": [], "left": [], "resubscribed": [], "regex": False, "assignor": False,
        "broken": False,
    }  # fmt: skip


def _described(member: Row) -> Row:
    return {
        "client_id": member["client_id"], "client_host": member["host"], "rack_id": member.get("rack"),
        "rebalance_timeout_ms": member["rebalance"], "server_assignor": member["assignor"], "topics": member["topics"],
        "regex": member["regex"] or None, "classic": member["session"] is not None,
    }  # fmt: skip


def _pairs(topics: Sequence[Row] | None) -> list[Any]:
    return [[each["topic_id"].hex(), number] for each in topics or () for number in each["partitions"]]


def _lists(topics: Sequence[Row] | None) -> list[Row]:
    return [{"topic_id": each["topic_id"], "partitions": each["partitions"]} for each in topics or ()]


def base_row(partition: int, row: Row) -> Row:
    """Where a decoded record stands."""
    return position(partition, row["offset"], row["timestamp"], row["leader_epoch"])
