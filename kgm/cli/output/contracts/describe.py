"""The JSON of `kgm describe`: snapshots, which `GroupSnapshot.to_json` makes, partitions where they were asked for,
what groups that rebalance wait for, and what all of these lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import GROUP, PARTITION, PARTITIONS, UNREAD

if TYPE_CHECKING:
    from kgm.operations.groups.rebalance_wait import RebalanceWait

_WAIT: Final[dict[str, Any]] = {
    "group_id": "str",
    "phase": "=join|sync|reconcile",
    "generation": "int?",
    "limit_ms": "int?",
    "awaited": [
        {
            "group_instance_id": "str?",
            "member_id": "str",
            "session_timeout_ms": "int?",
            "limit_ms": "int?",
            "idle_ms": "int?",
            "member_epoch": "int?",
            "holds": PARTITIONS,
        }
    ],
    "arrived": ["str"],
    "gone": ["str"],
    "text": ["str"],
}
FORMS: Final[dict[str, dict[str, Any]]] = {
    "describe": {"groups": [GROUP], "partitions": ([PARTITION], None), "waits": [_WAIT], "unread": [UNREAD]}
}


def wait_json(wait: RebalanceWait) -> dict[str, Any]:
    """One of `data.waits`."""
    return {
        "group_id": wait.group_id,
        "phase": str(wait.phase),
        "generation": wait.generation,
        "limit_ms": wait.limit_ms,
        "awaited": [
            {
                "group_instance_id": one.identity if one.is_static else None,
                "member_id": one.member_id,
                "session_timeout_ms": one.session_timeout_ms,
                "limit_ms": one.limit_ms,
                "idle_ms": one.idle_ms,
                "member_epoch": one.epoch,
                "holds": {topic: [*numbers] for topic, numbers in one.holds.items()},
            }
            for one in wait.awaited
        ],
        "arrived": [*wait.arrived],
        "gone": [*wait.gone],
        "text": [wait.headline, *wait.lines()],
    }
