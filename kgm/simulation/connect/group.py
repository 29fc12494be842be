"""A group of Connect workers as it is when a plan starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from kgm.frameworks.connect import CONNECTOR, Work, missing_work
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import CONNECT_PROTOCOL_TYPE
from kgm.simulation.plan.bounce_plan import Plan
from kgm.text.wording import group_command

#: The worker setting for how long lost work is held back, and its default.
MAX_DELAY: Final = "scheduled.rebalance.max.delay.ms"
DEFAULT_DELAY_MS: Final = 300_000
#: Defaults of session.timeout.ms and heartbeat.interval.ms of a worker (DistributedConfig).
SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 3_000
#: The protocol without revocations and without the delay (ConnectProtocolCompatibility.EAGER).
_EAGER: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorker:
    """identity: its member id before the plan; here a process keeps it across restarts, while in Kafka it gets a new
    member id."""

    identity: str
    client_id: str
    work: tuple[Work, ...]
    session_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroup:
    """leader: an identity, None if it is not known. unassigned: tasks that no worker runs, as far as that can be seen:
    those whose number lies between others. delay_ms: how long they will still wait, at most."""

    workers: tuple[ConnectWorker, ...]
    leader: str | None
    is_eager: bool
    unassigned: frozenset[Work]
    delay_ms: int

    @property
    def tasks(self) -> int:
        """The number of tasks that run."""
        return sum(number != CONNECTOR for worker in self.workers for _, number in worker.work)


def is_connect(snapshot: GroupSnapshot) -> bool:
    """Whether it is a group of Connect workers, and has members."""
    return snapshot.type == "classic" and snapshot.protocol_type == CONNECT_PROTOCOL_TYPE and bool(snapshot.members)


def connect_group_of(snapshot: GroupSnapshot, plan: Plan) -> ConnectGroup:
    """Raises RefusedError for a group or a what-if that cannot be played, NotFoundError for a name that is not a
    member."""
    group_id, what_if = snapshot.group_id, plan.what_if
    if plan.migrate or what_if.changes_assignment:
        raise RefusedError(
            f"group {group_id} is a Kafka Connect group: its workers have no static membership, no assignor of "
            "consumers, and no consumer protocol",
            group_id=group_id,
        )
    strangers = set(plan.named) - {member.identity for member in snapshot.members}
    if strangers:
        raise NotFoundError(f"group {group_id} has no member {', '.join(sorted(strangers))}", group_id=group_id)
    unread = [one.identity for one in snapshot.members if one.work is None or one.work.active_tasks is None]
    if unread or snapshot.state != "Stable":
        why = f"the work of {', '.join(unread)} cannot be read" if unread else f"its state is {snapshot.state}"
        raise RefusedError(
            f"the workers of group {group_id} cannot be simulated: {why}",
            hint=group_command("wait", group_id, "--for", "stable"),
            group_id=group_id,
        )
    workers = tuple(_worker(member, snapshot, what_if.session_timeout_ms) for member in snapshot.members)
    return ConnectGroup(
        workers=workers,
        leader=snapshot.leader,
        is_eager=snapshot.assignor == _EAGER,
        unassigned=frozenset(missing_work(work for worker in workers for work in worker.work)),
        delay_ms=snapshot.rebalance_delay_ms or 0,
    )


def delays_of(settings: Mapping[str, str]) -> tuple[int, ...]:
    """The values that the leader's delay may have, in ms, the usual one first. Raises UsageError."""
    text = settings.get(MAX_DELAY)
    if text is None:
        return DEFAULT_DELAY_MS, 0
    if not text.isdecimal():
        raise UsageError(f"{MAX_DELAY} is {text}, and must be a number of milliseconds, 0 or more")
    return (int(text),)


def work_of(member: MemberSnapshot) -> tuple[Work, ...]:
    """The connectors and tasks of a worker, in the form that the assignors use; empty if they are not known."""
    if member.work is None:
        return ()
    tasks = (task.rpartition("-") for task in member.work.active_tasks or ())
    connectors: Collection[str] = member.work.connectors or ()
    return (*((name, CONNECTOR) for name in connectors), *((name, int(number)) for name, _, number in tasks))


def _worker(member: MemberSnapshot, snapshot: GroupSnapshot, session_ms: int | None) -> ConnectWorker:
    return ConnectWorker(
        identity=member.identity,
        client_id=member.client_id,
        work=work_of(member),
        session_ms=session_ms or snapshot.session_of(member) or SESSION_MS,
    )
