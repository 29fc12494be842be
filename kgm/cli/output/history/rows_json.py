"""The answers of a history as the JSON objects of `forms`.

Times are RFC 3339 in UTC with milliseconds, both in JSON and in tables, so that the output of one command can be passed
to --since of another. An *identity* is a group_instance_id, or the member id of a dynamic member: the column `seat` of
the history's tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kgm.cli.output.contracts.describe import wait_json
from kgm.model.uuids import uuid_text
from kgm.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from kgm.history.facts.offset_changes import HeldOffset, OffsetChange
    from kgm.history.row_parts import CauseCount, Who
    from kgm.history.rows import (
        AlarmRow,
        EventRow,
        MemberChangeRow,
        OwnerRow,
        RebalanceRow,
        TenureRow,
        TimeoutAdviceRow,
    )
    from kgm.operations.history import Explanation, History
    from kgm.operations.history.advice import Advice, AdviceReport
    from kgm.operations.history.advice.gains import Spared
    from kgm.operations.history.churn import Churn, GroupChurn
    from kgm.simulation.fleet import FleetCost

Json = dict[str, Any]
#: The source of a cause that is taken from a broker's own log.
BROKER_LOG = "broker log"


def at(ms: int | None) -> str | None:
    """`2026-11-21T03:00:00.000Z`; None for an unknown time, and for times outside the calendar's range."""
    if ms is None or ms == NO_TIMESTAMP:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def at_text(ms: int | None) -> str:
    """`at` as part of a sentence."""
    return at(ms) or "?"


def window_json(history: History) -> Json:
    """Which history was queried, and for which time."""
    source = history.source
    return {
        "source": history.tables.origin.source, "store": str(source.path) if source.kind is None else None,
        "since": at(history.since_ms), "until": at(history.until_ms),
    }  # fmt: skip


def cluster_json(history: History) -> Json | None:
    """The `cluster` of the envelope; records do not have its address."""
    cluster = history.tables.origin.cluster
    return None if cluster is None else {"id": cluster, "bootstrap": history.source.bootstrap}


def rebalance_json(row: RebalanceRow) -> Json:
    """An entry of `rebalances`."""
    inferred = None
    if row.inferred_cause is not None and row.source == BROKER_LOG:
        inferred = {"cause": row.inferred_cause, "confidence": row.inferred_confidence}
    return {
        "group_id": row.group_id, "group_type": row.group_type, "at": at(row.timestamp),
        "generation_before": row.from_generation, "generation_after": row.to_generation, "protocol": row.protocol,
        "cause": row.cause, "confidence": row.confidence, "also": list(row.also), "who": _who_json(row.who),
        "evidence": list(row.evidence), "source": row.source, "reason": row.reason, "inferred": inferred,
        "members_before": row.members_before, "members_after": row.members_after, "joined": row.joined,
        "left": row.left, "replaced": row.replaced, "lost_rounds": row.lost_rounds, "moved": row.moved,
        "kept": row.kept, "assigned": row.assigned, "sync_ms": row.sync_ms,
        "stopped_ms": _bounds(row.stopped_min_ms, row.stopped_max_ms),
        "stopped_partition_ms": _bounds(row.stopped_partition_ms_min, row.stopped_partition_ms_max),
        "unowned_ms": row.unowned_ms, "complete": row.complete, "record": _record_json(row),
    }  # fmt: skip


def event_json(row: EventRow) -> Json:
    """An entry of `events`: something that happened without a rebalance."""
    return {
        "group_id": row.group_id, "group_type": row.group_type, "at": at(row.timestamp), "generation": row.generation,
        "event": row.event, "confidence": row.confidence, "who": _who_json(row.who), "evidence": list(row.evidence),
        "complete": row.complete, "record": _record_json(row),
    }  # fmt: skip


def _record_json(row: RebalanceRow | EventRow | AlarmRow) -> Json:
    """Where in `__consumer_offsets` the record is."""
    return {"partition": row.partition, "offset": row.offset}


def _who_json(who: Iterable[Who]) -> list[Json]:
    return [
        {
            "identity": each.seat or None, "what": each.what, "member_id": each.member_id,
            "client_id": each.client_id, "client_host": each.client_host,
        }
        for each in who
    ]  # fmt: skip


def _bounds(least: int | None, most: int | None) -> Json:
    return {"min": least, "max": most}


def causes_json(causes: Iterable[CauseCount]) -> list[Json]:
    """How often each cause occurs."""
    return [asdict(each) for each in causes]


def tenure_json(row: TenureRow) -> Json:
    """One process under an identity. A null `to` means that it is still a member."""
    return {
        "identity": row.seat, "member_id": row.member_id, "group_instance_id": row.group_instance_id,
        "client_id": row.client_id, "client_host": row.client_host, "session_timeout_ms": row.session_timeout_ms,
        "from": at(row.from_timestamp), "from_generation": row.from_generation, "known_from": row.known_from,
        "to": at(row.to_timestamp), "to_generation": row.to_generation, "end_cause": row.end_cause,
        "end_confidence": row.end_confidence, "from_ms": row.from_timestamp, "to_ms": row.to_timestamp,
    }  # fmt: skip


def owner_json(row: OwnerRow) -> Json:
    """A time during which an identity owned a partition. A null `to` means that it still does; to_earliest is the
    earliest time at which it may have stopped consuming."""
    return {
        "topic": row.topic, "topic_id": None if row.topic_id is None else uuid_text(row.topic_id),
        "partition": row.topic_partition, "identity": row.seat, "member_id": row.member_id,
        "from": at(row.from_timestamp), "from_generation": row.from_generation, "known_from": row.known_from,
        "to": at(row.to_timestamp), "to_earliest": at(row.to_earliest_timestamp), "to_generation": row.to_generation,
        "exact": row.exact, "from_ms": row.from_timestamp, "to_ms": row.to_timestamp,
    }  # fmt: skip


def offset_change_json(one: OffsetChange) -> Json:
    """What happened to a committed offset. A null `after` means that it is gone; only commits have by and identity."""
    return {
        "topic": one.topic, "partition": one.topic_partition, "what": one.what, "before": one.before,
        "after": one.after, "commits": one.commits, "at": at(one.first_ms), "last": at(one.last_ms), "by": one.by,
        "identity": one.seat, "confidence": one.confidence, "evidence": list(one.evidence),
        "record": {"partition": one.partition, "offset": one.offset},
    }  # fmt: skip


def held_offset_json(one: HeldOffset) -> Json:
    """An existing committed offset. lost: unread records before the start of the log; null if that was not asked
    for."""
    return {
        "topic": one.topic, "partition": one.topic_partition, "committed": one.committed, "at": at(one.committed_ms),
        "expires": at(one.expires_ms), "rule": one.rule, "lost": one.lost,
    }  # fmt: skip


def advice_json(row: TimeoutAdviceRow) -> Json:
    """The advice for one group; advised_ms is null if there is none."""
    return {
        "group_id": row.group_id, "group_type": row.group_type, "session_timeout_ms": row.now_ms,
        "restarts": row.restarts,
        "restart_ms": {"p50": row.p50_ms, "p95": row.p95_ms, "p99": row.p99_ms, "max": row.max_ms},
        "advised_ms": row.advised_ms, "saved_rebalances": row.saved, "extra_stall_ms": row.extra_stall_ms,
        "within_broker_max": row.within_broker_max, "verdict": row.verdict, "advice": row.advice,
    }  # fmt: skip


def alarm_json(row: AlarmRow) -> Json:
    """One alarm. A null identity means that it is about the whole group."""
    return {
        "group_id": row.group_id, "group_type": row.group_type, "alarm": row.alarm, "identity": row.seat or None,
        "confidence": row.confidence, "count": row.count, "since": at(row.timestamp), "last": at(row.last_timestamp),
        "cleared": at(row.cleared_timestamp), "member_ids": list(row.member_ids), "evidence": list(row.evidence),
        "record": _record_json(row),
    }  # fmt: skip


def explanation_json(explained: Explanation, window: Json) -> Json:
    """The `data` of `kgm history explain`."""
    one, advice = explained.rebalance, explained.timeout_advice
    return {
        "group_id": explained.group_id, "group_type": explained.group_type, "window": window,
        "complete": explained.complete, "causes": causes_json(explained.causes),
        "rebalance": None if one is None else rebalance_json(one),
        "changes": [_change_json(row) for row in explained.changes],
        "moves": [
            {
                "topic": move.topic, "partition": move.partition, "from": move.owner_before, "to": move.owner_after,
            }
            for move in explained.moves
        ],
        "rebalances": [rebalance_json(row) for row in explained.rebalances],
        "events": [event_json(row) for row in explained.events],
        "alarms": [_group_alarm_json(row) for row in explained.alarms],
        "timeout_advice": None if advice is None else advice_json(advice),
        "advice": [_change_advice_json(each) for each in explained.advice.advice],
        "replay": _replay_json(explained.advice),
        "next": [{"why": step.why, "command": step.command} for step in explained.next_steps],
        "wait": None if explained.wait is None else wait_json(explained.wait),
    }  # fmt: skip


def _change_advice_json(each: Advice) -> Json:
    """A change to the group, and what it would have avoided."""
    change, gain = each.change, each.gain
    return {
        "change": change.kind.value, "causes": list(each.causes), "text": each.text, "bound": each.bound.value,
        "rebalances": _spared_json(gain.rebalances), "moves": _spared_json(gain.moves),
        "interruptions": _spared_json(gain.interruptions), "session_timeout_ms": change.session_timeout_ms,
        "assignor": change.assignor, "processes": list(change.processes),
        "max_poll_interval_ms": change.max_poll_interval_ms, "price": each.price,
        "caveats": list(each.caveats),
    }  # fmt: skip


def _spared_json(each: Spared) -> Json:
    return {"recorded": each.recorded, "avoided": {"min": each.least, "typical": each.typical, "max": each.most}}


def _replay_json(report: AdviceReport) -> Json:
    """How the history was replayed; `reason` says why there is no advice."""
    least, most = report.replayed
    return {
        "rebalances": report.rebalances, "replayed": {"min": least, "max": most}, "untouched": report.untouched,
        "reason": report.reason,
    }  # fmt: skip


def _change_json(row: MemberChangeRow) -> Json:
    """How a member changed in the rebalance."""
    return {
        "what": row.kind, "identity": row.group_instance_id or row.member_id, "member_id": row.member_id,
        "old_member_id": row.old_member_id, "client_id": row.client_id, "client_host": row.client_host,
        "session_timeout_ms": row.session_timeout_ms, "topics_added": list(row.topics_added),
        "topics_removed": list(row.topics_removed), "partitions_before": row.partitions_before,
        "partitions_after": row.partitions_after,
    }  # fmt: skip


def _group_alarm_json(row: AlarmRow) -> Json:
    """An alarm, without the group, which is named elsewhere."""
    return {
        "alarm": row.alarm, "identity": row.seat or None, "confidence": row.confidence, "count": row.count,
        "since": at(row.timestamp), "cleared": at(row.cleared_timestamp), "evidence": list(row.evidence),
    }  # fmt: skip


def churn_json(churn: Churn, window: Json) -> Json:
    """The `data` of `kgm history churn`."""
    return {
        "window": window, "groups": [_group_churn_json(each) for each in churn.groups],
        "culprits": [asdict(each) | {"causes": causes_json(each.causes)} for each in churn.culprits],
    }  # fmt: skip


def _group_churn_json(each: GroupChurn) -> Json:
    return {
        "group_id": each.group_id, "group_type": each.group_type, "rebalances": each.rebalances,
        "per_hour": each.per_hour, "first": at(each.first_ms), "last": at(each.last_ms),
        "causes": causes_json(each.causes), "lost_rounds": each.lost_rounds, "moved": each.moved,
        "stopped_partition_ms": _bounds(each.stopped_partition_ms_min, each.stopped_partition_ms_max),
        "absorbed": each.absorbed,
    }  # fmt: skip


def cost_json(cost: FleetCost) -> Json:
    """An entry of `costs`. If a group could not be simulated, `reason` says why, and its costs are null."""
    return {**asdict(cost), "caveats": list(cost.caveats)}
