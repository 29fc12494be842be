"""The JSON of `kgm describe`: snapshots, made by `GroupSnapshot.to_json`, partitions if they were asked for, what
rebalancing groups are waiting for, how lag changes, which worker runs a task of a sink connector, and what is missing
from all of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import PARTITION, UNREAD
from kgm.model.forms.json_form import as_json
from kgm.model.forms.snapshot_form import GROUP, PARTITIONS
from kgm.text.timestamps import rfc3339

if TYPE_CHECKING:
    from kgm.operations.groups.rebalance_wait import AwaitedMember, RebalanceWait
    from kgm.operations.groups.trends import GroupTrends

_AWAITED: Final[dict[str, Any]] = {
    "group_instance_id": "str?",
    "member_id": "str",
    "session_timeout_ms": "int?",
    "limit_ms": "int?",
    "idle_ms": "int?",
    "member_epoch": "int?",
    "holds": PARTITIONS,
    "fenced_at": "str?",
}
WAIT: Final[dict[str, Any]] = {
    "group_id": "str",
    "phase": "=join|sync|reconcile",
    "generation": "int?",
    "limit_ms": "int?",
    "awaited": [_AWAITED],
    "arrived": ["str"],
    "gone": ["str"],
    "text": ["str"],
}
#: The trend of a partition, or of a whole group if topic is null.
_TREND: Final[dict[str, Any]] = {
    "group_id": "str",
    "topic": "str?",
    "partition": "int?",
    "trend": "=rising|falling|steady|caught-up|unknown",
    "window_ms": "int",
    "arrived_per_s": "float?",
    "committed_per_s": "float?",
    "done_in_ms": "int?",
    "done_at": "str?",
    "because": "str?",
}
_SINK_TASK: Final[dict[str, Any]] = {
    "task": "str",
    "workers": "str",
    "worker_id": "str",
    "url": "str?",
    "sink_group": "str",
    "member_id": "str",
}
FORMS: Final[dict[str, dict[str, Any]]] = {
    "describe": {
        "groups": [GROUP],
        "partitions": ([PARTITION], None),
        "waits": [WAIT],
        "unread": [UNREAD],
        "trends": ([_TREND], None),
        "sink_tasks": [_SINK_TASK],
    }
}


def trends_json(trends: GroupTrends) -> Iterator[dict[str, Any]]:
    """Entries of `data.trends`: for the group, and for its partitions."""
    for (topic, partition), one in [((None, None), trends.total), *sorted(trends.partitions.items())]:
        own = {
            "group_id": trends.group_id,
            "topic": topic,
            "partition": partition,
            "trend": str(one.kind),
            "window_ms": trends.window_ms,
            "done_at": None if one.done_in_ms is None else rfc3339(trends.at_ms + one.done_in_ms),
        }
        yield as_json(one, _TREND, own)


def wait_json(wait: RebalanceWait) -> dict[str, Any]:
    """An entry of `data.waits`."""
    own = {"awaited": [*map(_awaited_json, wait.awaited)], "text": [wait.headline, *wait.lines()]}
    return as_json(wait, WAIT, own)


def _awaited_json(one: AwaitedMember) -> dict[str, Any]:
    own = {
        "group_instance_id": one.identity if one.is_static else None,
        "member_epoch": one.epoch,
        "fenced_at": None if one.fenced_at_ms is None else rfc3339(one.fenced_at_ms),
    }
    return as_json(one, _AWAITED, own)
