"""The JSON of `kgm diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import VALUE
from kgm.model.forms.snapshot_form import MEMBER, MOVE, SUBSCRIPTION

if TYPE_CHECKING:
    from kgm.model.changes import Changed
    from kgm.operations.diff.comparison import GroupComparison

FORMS: Final[dict[str, dict[str, Any]]] = {
    "diff": {
        "a": "str",
        "b": "str",
        "groups": [
            {
                "group_id": "str",
                "group_id_before": "str?",
                "group_id_after": "str?",
                "same": "bool",
                "members_come": [MEMBER],
                "members_gone": [MEMBER],
                "members_replaced": [{"group_instance_id": "str", "member_id_before": "str", "member_id_after": "str"}],
                "statuses_changed": [{"identity": "str", "before": "str", "after": "str"}],
                "subscriptions_changed": [{"identity": "str", "before": SUBSCRIPTION, "after": SUBSCRIPTION}],
                "moves": ([MOVE], None),
                "moved_partitions": "int?",
                "values_changed": {"*": {"before": VALUE, "after": VALUE}},
                "topics_changed": [{"name": "str", "before": "int?", "after": "int?"}],
            }
        ],
    }
}


def comparison_json(group: GroupComparison) -> dict[str, Any]:
    """An entry of `data.groups`. moves and moved_partitions are null if the owners on one side are unknown."""
    from kgm.model.changes import Changes

    changed = group.changes or Changes()
    moves = None if group.changes is None else group.changes.moves
    values = [*changed.values, *([] if changed.coordinator is None else [changed.coordinator])]
    return {
        "group_id": group.group_id,
        "group_id_before": None if group.before is None else group.before.group_id,
        "group_id_after": None if group.after is None else group.after.group_id,
        "same": group.is_same,
        "members_come": [member.to_json() for member in changed.joined],
        "members_gone": [member.to_json() for member in changed.left],
        "members_replaced": [
            {
                "group_instance_id": one.identity,
                "member_id_before": one.member_id_before,
                "member_id_after": one.member_id_after,
            }
            for one in changed.replaced
        ],
        "subscriptions_changed": [
            {
                "identity": one.identity,
                "before": {"topics": list(one.topics_before), "regex": one.regex_before},
                "after": {"topics": list(one.topics_after), "regex": one.regex_after},
            }
            for one in changed.resubscribed
        ],
        "statuses_changed": [_changed("identity", one) for one in changed.statuses],
        "moves": None if moves is None else [move.to_json() for move in moves],
        "moved_partitions": None if moves is None else len(moves),
        "values_changed": {one.name: {"before": one.before, "after": one.after} for one in values},
        "topics_changed": [_changed("name", one) for one in changed.topics],
    }


def _changed(key: str, one: Changed) -> dict[str, Any]:
    return {key: one.name, "before": one.before, "after": one.after}
