"""Remove members: who is meant, what is sent, and what became of each.

Theory of operation. `plan` resolves what was asked for against a snapshot taken just before. `execute` sends one
LeaveGroup for the whole batch, because each further request is one more rebalance. A static member is named by its
instance id *and* the member id that was seen: should it have restarted meanwhile, the newcomer answers
FENCED_INSTANCE_ID instead of being evicted, also when the request has to be sent again after its answer was lost.
LeaveGroup is not idempotent on the wire (the second answer is UNKNOWN_MEMBER_ID) but it is in effect; so the group is
described again before anything is said about a member without an answer."""

import enum
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kgm.client.admin_client import AdminClient, LeaveAnswer, Leaver
from kgm.client.failures import RETRIABLE, ConnectError, LostError, from_code
from kgm.client.fresh_describe import described
from kgm.client.transport.brokers import backoff
from kgm.client.transport.deadline import Deadline
from kgm.model.assignment import Partitions
from kgm.model.errors import (
    ErrorCode,
    KgmError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    error_name,
)
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

#: What Kafka's own admin client says.
DEFAULT_REASON = "member was removed by an admin"
#: Kafka's clients cut reasons here (KIP-800).
MAX_REASON_CHARACTERS = 255
#: LeaveGroup with instance ids and several members (KIP-345, Kafka 2.4); with a reason (KIP-800, Kafka 3.2).
BATCH_VERSION, REASON_VERSION = 3, 5
#: The share of the budget for sending; the rest is for looking what became of it.
_SENDING_SHARE = 0.75


class Result(enum.StrEnum):
    """What became of one id (cli.md)."""

    PLANNED = "planned"
    REMOVED = "removed"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Kind(enum.Enum):
    """What an id that was asked for is."""

    INSTANCE = "group instance id"
    MEMBER = "member id"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """One id that was asked for, and the member that it meant when the group was described. Equal only to itself."""

    kind: Kind
    id: str
    member: MemberSnapshot | None

    @property
    def leaver(self) -> Leaver:
        """How the member is named in LeaveGroup. Only for a target that was found."""
        assert self.member is not None
        if self.kind is Kind.INSTANCE:
            return Leaver(group_instance_id=self.id, member_id=self.member.member_id)
        return Leaver(member_id=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """What is to be removed. group: None when it does not exist; collapsed: ids that meant a member named before."""

    group_id: str
    group: GroupSnapshot | None
    targets: tuple[Target, ...]
    collapsed: tuple[str, ...] = ()

    @property
    def found(self) -> tuple[Target, ...]:
        return tuple(target for target in self.targets if target.member is not None)

    @property
    def member_ids(self) -> frozenset[str]:
        return frozenset(target.member.member_id for target in self.targets if target.member is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResult:
    """What became of one id. error: Kafka's error code, 0 for none; note: what a person should know, or None.

    was_lost: an answer was lost on the way, so something may have changed whatever the result is."""

    target: Target
    result: Result
    error: int = 0
    note: str | None = None
    was_lost: bool = False

    @property
    def partitions_freed(self) -> Partitions:
        gone = self.result in (Result.REMOVED, Result.PLANNED)
        return self.target.member.assignment if gone and self.target.member is not None else {}


def plan(
    group_id: str,
    group: GroupSnapshot | None,
    *,
    instance_ids: Iterable[str] = (),
    member_ids: Iterable[str] = (),
    identities: Iterable[str] = (),
    patterns: Iterable[str] = (),
) -> RemovalPlan:
    """Resolve ids against a snapshot, in this order, each member once.

    identities: instance ids, or member ids of members. patterns: globs over identities; they add what they match."""
    members = group.members if group is not None else ()
    by_instance = {member.group_instance_id: member for member in members if member.group_instance_id is not None}
    by_id = {member.member_id: member for member in members}
    asked = [Target(kind=Kind.INSTANCE, id=name, member=by_instance.get(name)) for name in instance_ids]
    asked += [Target(kind=Kind.MEMBER, id=name, member=by_id.get(name)) for name in member_ids]
    for name in identities:
        is_member_id = name not in by_instance and name in by_id
        kind, found = (Kind.MEMBER, by_id[name]) if is_member_id else (Kind.INSTANCE, by_instance.get(name))
        asked.append(Target(kind=kind, id=name, member=found))
    for pattern in patterns:
        for member in sorted(members, key=lambda one: one.identity):
            if fnmatch.fnmatchcase(member.identity, pattern):
                kind = Kind.MEMBER if member.group_instance_id is None else Kind.INSTANCE
                asked.append(Target(kind=kind, id=member.identity, member=member))
    targets: dict[tuple[str, str], Target] = {}
    collapsed: list[str] = []
    for target in asked:
        # Two names of one member are one target; an absent id is known by its name alone.
        key = ("member", target.member.member_id) if target.member else (target.kind.value, target.id)
        if key in targets:
            collapsed.append(target.id)
        else:
            targets[key] = target
    return RemovalPlan(group_id=group_id, group=group, targets=tuple(targets.values()), collapsed=tuple(collapsed))


def check_possible(cluster: AdminClient, wanted: RemovalPlan) -> None:
    """Refuse what the broker or the group's type cannot do, before anything is sent. Raises RefusedError, KgmError."""
    group = wanted.group
    if group is None:
        return
    if group.type not in ("classic", "consumer"):
        raise RefusedError(
            f"members of {group.type} group {group.group_id!r} cannot be removed by LeaveGroup",
            group_id=group.group_id, hint="stop the member; its session timeout removes it",
        )  # fmt: skip
    version = cluster.leave_version(group.group_id, cluster.deadline)
    static = [
        target.id
        for target in wanted.targets
        if target.kind is Kind.INSTANCE or (target.member is not None and target.member.group_instance_id is not None)
    ]
    if version < BATCH_VERSION and static:
        raise RefusedError(
            f"this broker cannot remove static members: {', '.join(static)}", group_id=group.group_id,
            facts=(f"LeaveGroup: the broker speaks up to v{version}; instance ids need v{BATCH_VERSION} (Kafka 2.4)",),
            hint="dynamic members can be removed by --member-ids; static ones leave when their session times out",
            kafka_error=ErrorCode.UNSUPPORTED_VERSION,
        )  # fmt: skip


def planned(wanted: RemovalPlan) -> list[MemberResult]:
    """The results of a dry run."""
    return [_absent(target) if target.member is None else _planned(target) for target in wanted.targets]


def _planned(target: Target) -> MemberResult:
    return MemberResult(target=target, result=Result.PLANNED)


def _absent(target: Target, note: str | None = None) -> MemberResult:
    note = note or f"no member has this {target.kind.value}"
    return MemberResult(target=target, result=Result.ABSENT, error=ErrorCode.UNKNOWN_MEMBER_ID, note=note)


def execute(
    cluster: AdminClient,
    wanted: RemovalPlan,
    *,
    reason: str,
    evict: bool = False,
    sleep: Callable[[float], None] | None = None,
) -> list[MemberResult]:
    """Remove, and say what became of each id, in the order asked.

    evict: remove whoever holds an instance id at the first attempt, also a process that came after the plan was made;
    attempts after a lost answer never do. Raises KgmError only when nothing can have changed."""
    found = wanted.found
    if not found:
        return planned(wanted)
    sending = _Sending(cluster, wanted.group_id, reason=reason, evict=evict, sleep=sleep)
    sending.run(found)
    after = _look_again(cluster, wanted.group_id, sending.doubtful(found))
    return [
        _absent(target) if target.member is None else _outcome(target, sending, wanted, after)
        for target in wanted.targets
    ]


class _Sending:
    """LeaveGroup until it is answered, or the time is over."""

    def __init__(
        self, cluster: AdminClient, group_id: str, *, reason: str, evict: bool, sleep: Callable[[float], None] | None
    ) -> None:
        self.codes: dict[Target, int] = {}
        self.lost: set[Target] = set()
        self.last: KgmError | None = None
        self._cluster, self._group_id, self._reason, self._evict = cluster, group_id, reason, evict
        self._sleep = sleep

    def run(self, targets: Sequence[Target]) -> None:
        """Raises KgmError when nothing can have changed; otherwise the fields tell what is known."""
        deadline = self._cluster.deadline.part(_SENDING_SHARE)
        try:
            is_batch = self._cluster.leave_version(self._group_id, deadline) >= BATCH_VERSION
            for batch in [list(targets)] if is_batch else [[target] for target in targets]:
                self._send(batch, deadline)
        except KgmError as error:
            if not self.codes and not self.lost:
                raise
            self.last = error

    def doubtful(self, targets: Iterable[Target]) -> list[Target]:
        """Of whom a description has to tell what became."""
        return [target for target in targets if self.codes.get(target) in (None, ErrorCode.UNKNOWN_MEMBER_ID)]

    def _send(self, batch: list[Target], deadline: Deadline) -> None:
        attempt = 0
        while True:
            error = self._attempt(batch, deadline, first=attempt == 0)
            if error is None:
                return
            self.last = error
            if deadline.expired:
                if self.lost or self.codes:
                    return
                raise UnreachableError(
                    f"LeaveGroup for group {self._group_id!r} was not answered within the time allowed",
                    facts=(f"last: {error.message}", *error.facts, "nothing was changed"), group_id=self._group_id,
                    hint="try a longer --timeout", kafka_error=error.kafka_error,
                )  # fmt: skip
            (self._sleep or deadline.sleep)(backoff(attempt))
            attempt += 1

    def _attempt(self, batch: list[Target], deadline: Deadline, *, first: bool) -> KgmError | None:
        """None when the batch is answered, else why it is to be tried again. Raises what no retry can help."""
        leavers = {self._leaver(target, first=first): target for target in batch}
        brokers = self._cluster.brokers
        try:
            answer = self._cluster.leave_group(self._group_id, list(leavers), reason=self._reason, deadline=deadline)
        except (LostError, ConnectError) as error:
            brokers.forget_coordinators([self._group_id])
            if isinstance(error, LostError) and error.sent:
                self.lost.update(batch)
            return error
        except KgmError as error:
            if error.kafka_error not in RETRIABLE:
                raise
            brokers.forget_coordinators([self._group_id])
            return error
        return self._take(answer, leavers)

    def _leaver(self, target: Target, *, first: bool) -> Leaver:
        if self._evict and first and target.kind is Kind.INSTANCE:
            return Leaver(group_instance_id=target.id)
        return target.leaver

    def _take(self, answer: LeaveAnswer, leavers: dict[Leaver, Target]) -> KgmError | None:
        code = answer.error_code
        if code:
            error = from_code(
                code, f"members of group {self._group_id!r} cannot be removed", broker=answer.broker, api="LeaveGroup",
                operation="READ", group_id=self._group_id,
            )  # fmt: skip
            if code not in RETRIABLE:
                raise error
            self._cluster.brokers.forget_coordinators([self._group_id])
            return error
        self.codes.update((leavers[leaver], code) for leaver, code in answer.codes.items())
        return None


def _look_again(cluster: AdminClient, group_id: str, doubtful: Iterable[Target]) -> GroupSnapshot | None:
    """The group afterwards; without members when it is gone, None when it cannot be seen."""
    names = [target.member.group_instance_id for target in doubtful if target.member is not None]
    try:
        return described(cluster, group_id, [name for name in names if name is not None], shown_too=True, offsets=False)
    except NotFoundError:
        return GroupSnapshot(group_id=group_id, type="classic", state="Dead")
    except KgmError:
        return None


def _outcome(target: Target, sending: _Sending, wanted: RemovalPlan, after: GroupSnapshot | None) -> MemberResult:
    code = sending.codes.get(target)
    lost = target in sending.lost
    member = target.member
    assert member is not None
    still = after is not None and any(one.member_id == member.member_id for one in after.members)
    heir = _heir(member, after)

    def result(kind: Result, note: str | None = None, error: int | None = None) -> MemberResult:
        shown = (code or 0) if error is None else error
        return MemberResult(target=target, result=kind, error=shown, note=note, was_lost=lost)

    match code:
        case ErrorCode.NONE:
            return result(Result.REMOVED, _came_back(heir, still=still))
        case ErrorCode.UNKNOWN_MEMBER_ID if lost:
            if still:
                return result(Result.FAILED, "it is still in the group")
            return result(Result.REMOVED, _joined("an answer was lost; it was there before and is gone", heir), error=0)
        case ErrorCode.UNKNOWN_MEMBER_ID if still and wanted.group is not None and wanted.group.type == "consumer":
            note = "this broker cannot remove members of consumer groups (KAFKA-18188; Kafka 4.0 can)"
            return result(Result.REFUSED, note)
        case ErrorCode.UNKNOWN_MEMBER_ID if still:
            return result(Result.FAILED, "it is still in the group")
        case ErrorCode.UNKNOWN_MEMBER_ID:
            return _absent(target, "it left by itself before the request arrived")
        case ErrorCode.FENCED_INSTANCE_ID:
            return result(
                Result.REFUSED, _joined("the member that was seen is gone, and another holds its place", heir)
            )
        case None:
            return _unanswered(target, lost=lost, still=still, heir=heir, after=after, last=sending.last)
        case _:
            return result(Result.FAILED, f"the broker answered {error_name(code)}")


def _unanswered(
    target: Target, *, lost: bool, still: bool, heir: MemberSnapshot | None, after: GroupSnapshot | None,
    last: KgmError | None,
) -> MemberResult:  # fmt: skip
    if after is not None and not still:
        if lost or last is None:
            note = _joined("its answer was lost; it was there before and is gone", heir)
            return MemberResult(target=target, result=Result.REMOVED, note=note, was_lost=lost)
        return _absent(target, "it left by itself; no request for it was sent")
    if lost:
        seen = "it is still in the group, but the request may yet be carried out" if still else "the answer was lost"
        note = f"{seen}; to run the command again is safe"
        return MemberResult(target=target, result=Result.UNKNOWN, note=note, was_lost=True)
    if last is None:
        kind = Result.FAILED if after is not None else Result.UNKNOWN
        return MemberResult(target=target, result=kind, note="the broker's answer does not mention it")
    note = f"no request for it was sent: {last.message}"
    return MemberResult(target=target, result=Result.FAILED, error=last.kafka_error, note=note)


def _heir(member: MemberSnapshot, after: GroupSnapshot | None) -> MemberSnapshot | None:
    """Who holds the member's instance id now, under another member id."""
    if after is None or member.group_instance_id is None:
        return None
    holders = (one for one in after.members if one.group_instance_id == member.group_instance_id)
    return next((one for one in holders if one.member_id != member.member_id), None)


def _came_back(heir: MemberSnapshot | None, *, still: bool) -> str | None:
    if heir is not None:
        return f"it came back at once, as member {heir.member_id}"
    return "it came back at once: its process is alive" if still else None


def _joined(text: str, heir: MemberSnapshot | None) -> str:
    return text if heir is None else f"{text}: rejoined as member {heir.member_id}, which was left alone"


def exit_code(results: Sequence[MemberResult], *, ignore_missing: bool) -> int:
    """0 all done · 3 all absent · 6 refused and nothing changed · 7 partial or unknown · 1 all failed (cli.md)."""
    done = {Result.REMOVED, Result.PLANNED} | ({Result.ABSENT} if ignore_missing else set())
    open_ones = {one.result for one in results if one.result not in done}
    if not open_ones:
        return 0
    changed = any(one.was_lost or one.result in (Result.REMOVED, Result.PLANNED) for one in results)
    if Result.UNKNOWN in open_ones or changed:
        return 7
    if Result.FAILED in open_ones:
        return 1
    return 6 if Result.REFUSED in open_ones else 3
