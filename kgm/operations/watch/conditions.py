"""The conditions of `kgm wait --for`, and whether a group meets them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.watch.watched_group import AWAY, RECONCILING, STABLE
from kgm.text.durations import parse_duration, show_duration
from kgm.text.names import in_order
from kgm.text.wording import left_lag_text, many, partitions_text, past_end_text, some

_FORM: Final = re.compile(r"(members|lag)\s*(<=|>=|==|=)\s*(\d+)")
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "=": operator.eq, "==": operator.eq,
}  # fmt: skip
_TIME_FORM: Final = re.compile(r"lag-time\s*<=\s*(\S+)")
_REPLACED_FORM: Final = re.compile(r"replaced\s*=\s*(.+)", re.IGNORECASE | re.DOTALL)
_FORMS: Final = "stable, settled, empty, members=N, members>=N, members<=N, lag<=N, lag-time<=60s or replaced=ID"


class Subject(StrEnum):
    """What a condition is about."""

    STABLE = "stable"
    SETTLED = "settled"
    EMPTY = "empty"
    MEMBERS = "members"
    LAG = "lag"
    LAG_TIME = "lag-time"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionState:
    """Whether a condition is met. seen: what was seen of the group, in words. is_final: waiting will not help.
    is_unknown: it is not met because something is unknown, perhaps because it could not be read. is_of_lag: it
    is not met because of a known lag, so the lag's trend shows when it may be."""

    met: bool
    seen: str
    is_final: bool = False
    is_unknown: bool = False
    is_of_lag: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition. text: as typed. sign, limit: how members or lag are compared, and with what; lag in time is in
    ms. instance_id, member_id_before: the static member that is to be replaced, and its member id in the baseline."""

    text: str
    subject: Subject
    sign: str = "="
    limit: int = 0
    instance_id: str = ""
    member_id_before: str = ""

    @property
    def needs_offsets(self) -> bool:
        return self.subject in (Subject.LAG, Subject.LAG_TIME)

    @property
    def needs_times(self) -> bool:
        return self.subject is Subject.LAG_TIME

    @property
    def is_met_by_deletion(self) -> bool:
        """Whether a deleted group meets it."""
        return self.subject is Subject.EMPTY or (self.subject is Subject.MEMBERS and self._compares(0))

    def check(self, group: GroupSnapshot) -> ConditionState:
        """Whether the group meets it now."""
        match self.subject:
            case Subject.STABLE:
                return _stable(group)
            case Subject.SETTLED:
                return _settled(group)
            case Subject.EMPTY:
                is_empty = not group.members
                return ConditionState(met=is_empty, seen="no members" if is_empty else _members(group))
            case Subject.MEMBERS:
                return ConditionState(met=self._compares(len(group.members)), seen=_members(group))
            case Subject.LAG | Subject.LAG_TIME:
                return self._lag(group)
            case Subject.REPLACED:
                return self._replaced(group)

    def _replaced(self, group: GroupSnapshot) -> ConditionState:
        """Whether a new process runs as the static member: each one that joins gets, or makes, a new member id, and the
        old process keeps its own until its session expires, even if it has stopped (KIP-345)."""
        member = next((one for one in group.members if one.group_instance_id == self.instance_id), None)
        if member is None:
            return ConditionState(met=False, seen=f"no member {self.instance_id}")
        if member.member_id == self.member_id_before:
            return ConditionState(met=False, seen=f"not replaced: still {member.member_id}")
        if member.status == AWAY:
            return ConditionState(met=False, seen=f"{member.member_id} is {AWAY}")
        return ConditionState(met=True, seen=f"replaced by {member.member_id}")

    def _compares(self, number: int) -> bool:
        return _COMPARE[self.sign](number, self.limit)

    def _lag(self, group: GroupSnapshot) -> ConditionState:
        """The lag of all partitions that the group owns or has committed offsets for. A partition with unknown lag
        keeps the condition from being met; an empty partition without a committed offset has no lag. Where members name
        their topics, the lag may be of those that the login may describe: that is in `seen`."""
        rows = group.offsets
        if group.may_hide_lag:
            what = "topics on which this login has no DESCRIBE"
            seen = f"unknown lag: brokers leave out {what}, if there are any"
            if group.hidden_offset_topics:
                seen = f"unknown lag: the group has committed offsets of {what}: {some(group.hidden_offset_topics)}"
            return ConditionState(met=False, seen=seen, is_unknown=True)
        if group.past_end:
            where = partitions_text(group.past_end)
            return ConditionState(met=False, seen=f"unknown lag, because {past_end_text(group.past_end)} ({where})")
        if group.deleted_topics:
            names = ", ".join(group.deleted_topics[:3])
            seen = f"unknown lag: the group has partitions or committed offsets of topics that do not exist: {names}"
            return ConditionState(met=False, seen=seen, is_final=True)
        unknown = [row for row in rows if row.known_lag is None]
        known = sum(row.lag for row in rows if row.lag is not None)
        if unknown:
            row = unknown[0]
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            none = "no start offset" if group.type == "share" else "no committed offset"
            why = none if row.committed is None else "unknown end offset"
            if group.may_lack_offsets and row.topic not in {one.name for one in group.topics}:
                why = "this login may not see the offset"
            lag = "no lag is known:" if len(unknown) == len(rows) else f"lag {known}, but"
            seen = f"{lag} {why} for {row.topic}[{row.partition}]{more}"
            return ConditionState(met=False, seen=seen, is_unknown=True)
        if not rows:
            is_owner = any(member.assignment for member in group.members)
            none = "no lag is known: no partition is owned, and no committed offset was read"
            unread = "unknown lag, because the committed offsets could not be read"
            return ConditionState(met=False, seen=unread if is_owner else none, is_unknown=True)
        if self.needs_times:
            return self._lag_time(group)
        left = f"{_scope(group)}, {left_lag_text(group.left_lag)}" if group.left_lag else _scope(group)
        met = self._compares(known)
        return ConditionState(met=met, seen=f"lag {known}{left}", is_of_lag=not met)

    def _lag_time(self, group: GroupSnapshot) -> ConditionState:
        """Compare the lag in time of a group whose lag in records is known."""
        lag_ms = group.lag_ms
        if lag_ms is None:
            row = next(row for row in group.offsets if row.known_lag_ms is None)
            seen = f"no lag in time is known for {row.topic}[{row.partition}]: its lag is {row.lag}"
            return ConditionState(met=False, seen=seen, is_unknown=True)
        met = self._compares(lag_ms)
        return ConditionState(met=met, seen=f"lag {show_duration(lag_ms)}{_scope(group)}", is_of_lag=not met)


def parse_condition(text: str, baseline: GroupSnapshot | None = None) -> Condition:
    """Parse `stable`, `settled`, `empty`, `members=N`, `members>=N`, `members<=N`, `lag<=N`, `lag-time<=60s` or
    `replaced=ID`, where ID is a `group.instance.id` of the baseline. Raises UsageError, and NotFoundError if it has no
    such member."""
    replaced = _REPLACED_FORM.fullmatch(text.strip())
    if replaced is not None:
        return _replaced_condition(replaced[1], baseline)
    plain = text.strip().lower()
    if plain in (Subject.STABLE, Subject.SETTLED, Subject.EMPTY):
        return Condition(text=plain, subject=Subject(plain))
    timed = _TIME_FORM.fullmatch(plain)
    if timed is not None:
        limit_ms = parse_duration(timed[1], "--for")
        return Condition(text=plain.replace(" ", ""), subject=Subject.LAG_TIME, sign="<=", limit=limit_ms)
    match = _FORM.fullmatch(plain)
    if match is None or (match[1] == Subject.LAG and match[2] == ">="):
        raise UsageError(f"--for: {text!r} is not a valid condition", hint=f"write {_FORMS}")
    return Condition(text=plain.replace(" ", ""), subject=Subject(match[1]), sign=match[2], limit=int(match[3]))


def _replaced_condition(instance_id: str, baseline: GroupSnapshot | None) -> Condition:
    if baseline is None:
        raise UsageError(
            "--for replaced=ID needs --baseline, a snapshot taken before the restart",
            hint="kgm describe GROUP -o json > before.json",
        )
    before = {one.group_instance_id: one.member_id for one in baseline.members if one.group_instance_id is not None}
    if instance_id not in before:
        raise NotFoundError(
            f"the baseline has no static member {instance_id} in group {baseline.group_id!r}",
            facts=[f"it has: {', '.join(in_order(before)[:10])}"] if before else ["it has none"],
            group_id=baseline.group_id,
        )
    text = f"{Subject.REPLACED}={instance_id}"
    return Condition(text=text, subject=Subject.REPLACED, instance_id=instance_id, member_id_before=before[instance_id])


def _scope(group: GroupSnapshot) -> str:
    """What a lag is of, if that may not be all of it."""
    return " in the topics that this login may describe" if group.may_lack_offsets else ""


def _members(group: GroupSnapshot) -> str:
    return many(len(group.members), "member")


def _stable(group: GroupSnapshot) -> ConditionState:
    if group.state != STABLE:
        return ConditionState(met=False, seen=group.state)
    unready = in_order(f"{one.identity} is {one.status}" for one in group.members if one.status in (AWAY, RECONCILING))
    if unready:
        return ConditionState(met=False, seen=f"{group.state}, but {', '.join(unready[:3])}")
    return ConditionState(met=True, seen=group.state)


def _settled(group: GroupSnapshot) -> ConditionState:
    """Whether a Kafka Streams application, or a group of Connect workers, is stable and will not start another
    rebalance on its own."""
    stable = _stable(group)
    if not stable.met:
        return stable
    if group.is_settled is None:
        seen = (
            "it does not report whether it is settled: only Kafka Connect and, from 2.6 on, Kafka Streams do, with the "
            "classic protocol"
        )
        return ConditionState(met=False, seen=seen, is_final=True)
    if group.is_settled:
        return ConditionState(met=True, seen="settled")
    due = group.next_rebalance_at or group.unassigned_until
    when = f", due at {due}" if due else ""
    return ConditionState(met=False, seen=f"not settled: a member starts another rebalance{when}")
