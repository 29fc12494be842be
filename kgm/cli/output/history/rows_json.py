"""The answers of a history as the JSON objects of `forms`.

Times are RFC 3339 in UTC with milliseconds, both in JSON and in tables, so that the output of one command can be passed
to --since of another. An *identity* is a group_instance_id, or the member id of a dynamic member: the column `seat` of
the history's tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kgm.cli.output.contracts.describe import wait_json
from kgm.cli.output.history import forms
from kgm.model.forms.json_form import as_json, json_value
from kgm.model.uuids import uuid_text
from kgm.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from kgm.history.facts.offset_changes import HeldOffset, OffsetChange
    from kgm.history.row_parts import Who
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
    own = {
        "at": at(row.timestamp), "generation_before": row.from_generation, "generation_after": row.to_generation,
        "who": _who_json(row.who), "inferred": inferred, "stopped_ms": _bounds(row.stopped_min_ms, row.stopped_max_ms),
        "stopped_partition_ms": _bounds(row.stopped_partition_ms_min, row.stopped_partition_ms_max),
        "record": as_json(row, forms.RECORD),
    }  # fmt: skip
    return as_json(row, forms.REBALANCE, own)


def event_json(row: EventRow) -> Json:
    """An entry of `events`: something that happened without a rebalance."""
    own = {"at": at(row.timestamp), "who": _who_json(row.who), "record": as_json(row, forms.RECORD)}
    return as_json(row, forms.EVENT, own)


def _who_json(who: Iterable[Who]) -> list[Json]:
    return [as_json(each, forms.WHO, {"identity": each.seat or None}) for each in who]


def _bounds(least: int | None, most: int | None) -> Json:
    return {"min": least, "max": most}


def tenure_json(row: TenureRow) -> Json:
    """One process under an identity. A null `to` means that it is still a member."""
    own = {
        "identity": row.seat, "from": at(row.from_timestamp), "to": at(row.to_timestamp),
        "from_ms": row.from_timestamp, "to_ms": row.to_timestamp,
    }  # fmt: skip
    return as_json(row, forms.SEAT, own)


def owner_json(row: OwnerRow) -> Json:
    """A time during which an identity owned a partition. A null `to` means that it still does; to_earliest is the
    earliest time at which it may have stopped consuming."""
    own = {
        "topic_id": None if row.topic_id is None else uuid_text(row.topic_id), "partition": row.topic_partition,
        "identity": row.seat, "from": at(row.from_timestamp), "to": at(row.to_timestamp),
        "to_earliest": at(row.to_earliest_timestamp), "from_ms": row.from_timestamp, "to_ms": row.to_timestamp,
    }  # fmt: skip
    return as_json(row, forms.OWNER, own)


def offset_change_json(one: OffsetChange) -> Json:
    """What happened to a committed offset. A null `after` means that it is gone; only commits have by and identity."""
    own = {
        "partition": one.topic_partition, "at": at(one.first_ms), "last": at(one.last_ms), "identity": one.seat,
        "record": as_json(one, forms.RECORD),
    }  # fmt: skip
    return as_json(one, forms.OFFSET_CHANGE, own)


def held_offset_json(one: HeldOffset) -> Json:
    """An existing committed offset. lost: unread records before the start of the log; null if that was not asked
    for. confirmed: false if compaction may have removed the record that deleted it."""
    own = {"partition": one.topic_partition, "at": at(one.committed_ms), "expires": at(one.expires_ms)}
    return as_json(one, forms.HELD_OFFSET, own)


def advice_json(row: TimeoutAdviceRow) -> Json:
    """The advice for one group; advised_ms is null if there is none."""
    own = {
        "session_timeout_ms": row.now_ms, "saved_rebalances": row.saved,
        "restart_ms": {"p50": row.p50_ms, "p95": row.p95_ms, "p99": row.p99_ms, "max": row.max_ms},
    }  # fmt: skip
    return as_json(row, forms.ADVICE, own)


def alarm_json(row: AlarmRow) -> Json:
    """One alarm, whose keys are not in the order of their form. A null identity: it is about the whole group."""
    return {
        "group_id": row.group_id, "group_type": row.group_type, "alarm": row.alarm, "identity": row.seat or None,
        "confidence": row.confidence, "count": row.count, "since": at(row.timestamp), "last": at(row.last_timestamp),
        "cleared": at(row.cleared_timestamp), "member_ids": list(row.member_ids), "evidence": list(row.evidence),
        "record": as_json(row, forms.RECORD),
    }  # fmt: skip


def explanation_json(explained: Explanation, window: Json) -> Json:
    """The `data` of `kgm history explain`."""
    one, advice = explained.rebalance, explained.timeout_advice
    alarms = map(alarm_json, explained.alarms)
    own = {
        "window": window,
        "rebalance": None if one is None else rebalance_json(one),
        "changes": [_change_json(row) for row in explained.changes],
        "moves": [move.to_json() for move in explained.moves],
        "rebalances": [rebalance_json(row) for row in explained.rebalances],
        "events": [event_json(row) for row in explained.events],
        "alarms": [{key: alarm[key] for key in forms.ALARM} for alarm in alarms],
        "timeout_advice": None if advice is None else advice_json(advice),
        "advice": [_change_advice_json(each) for each in explained.advice.advice],
        "replay": _replay_json(explained.advice),
        "next": [{"why": step.why, "command": step.command} for step in explained.next_steps],
        "wait": None if explained.wait is None else wait_json(explained.wait),
    }
    return as_json(explained, forms.EXPLANATION, own)


def _change_advice_json(each: Advice) -> Json:
    """A change to the group, and what it would have avoided."""
    change, gain = each.change, each.gain
    own = {
        "change": change.kind.value, "bound": each.bound.value, "rebalances": _spared_json(gain.rebalances),
        "moves": _spared_json(gain.moves), "interruptions": _spared_json(gain.interruptions),
        "session_timeout_ms": change.session_timeout_ms, "assignor": change.assignor,
        "processes": list(change.processes), "max_poll_interval_ms": change.max_poll_interval_ms,
    }  # fmt: skip
    return as_json(each, forms.CHANGE_ADVICE, own)


def _spared_json(each: Spared) -> Json:
    return {"recorded": each.recorded, "avoided": {"min": each.least, "typical": each.typical, "max": each.most}}


def _replay_json(report: AdviceReport) -> Json:
    """How the history was replayed; `reason` says why there is no advice."""
    return as_json(report, forms.REPLAY, {"replayed": _bounds(*report.replayed)})


def _change_json(row: MemberChangeRow) -> Json:
    """How a member changed in the rebalance."""
    own = {"what": row.kind, "identity": row.group_instance_id or row.member_id}
    return as_json(row, forms.CHANGE, own)


def churn_json(churn: Churn, window: Json) -> Json:
    """The `data` of `kgm history churn`."""
    return {
        "window": window, "groups": [_group_churn_json(each) for each in churn.groups],
        "culprits": json_value(churn.culprits, [forms.CULPRIT]),
    }  # fmt: skip


def _group_churn_json(each: GroupChurn) -> Json:
    own = {
        "first": at(each.first_ms), "last": at(each.last_ms),
        "stopped_partition_ms": _bounds(each.stopped_partition_ms_min, each.stopped_partition_ms_max),
    }  # fmt: skip
    return as_json(each, forms.GROUP_CHURN, own)
