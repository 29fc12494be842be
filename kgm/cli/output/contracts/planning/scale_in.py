"""The JSON of `kgm scale-in`: the members that leave, the prediction, and the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.invocation import with_cluster
from kgm.model.forms.json_form import as_json
from kgm.model.forms.snapshot_form import PARTITIONS
from kgm.simulation.report.prediction_form import SCENARIO

if TYPE_CHECKING:
    from kgm.operations.scale_in.scale_in import MemberOfPod, ScaleIn

_LEAVING: Final[dict[str, Any]] = {
    "group_instance_id": "str?",
    "member_id": "str",
    "client_host": "str",
    "pod": "str",
    "ordinal": "int",
    "ordinal_because": "str",
    "assignment": PARTITIONS,
}
_SCALE_IN: Final[dict[str, Any]] = {
    "group_id": "str",
    "stateful_set": "str",
    "replicas": "int",
    "first": "int",
    "leaving": [_LEAVING],
    "staying": ["str"],
    "scenario": SCENARIO,
    "commands": {"scale": "str", "wait": "str", "remove": "str?"},
}
FORMS: Final[dict[str, dict[str, Any]]] = {"scale-in": _SCALE_IN}


def scale_in_json(planned: ScaleIn) -> dict[str, Any]:
    """The `data` of the envelope."""
    own = {
        "group_id": planned.group.group_id,
        "leaving": [*map(_leaving_json, planned.leaving)],
        "scenario": planned.prediction.to_json(),
        "commands": {
            "scale": with_cluster(planned.commands.scale),
            "wait": with_cluster(planned.commands.wait),
            "remove": None if planned.commands.remove is None else with_cluster(planned.commands.remove),
        },
    }
    return as_json(planned, _SCALE_IN, own)


def _leaving_json(one: MemberOfPod) -> dict[str, Any]:
    own = {
        "pod": one.pod,
        "ordinal": one.ordinal,
        "ordinal_because": one.why,
        "assignment": {topic: list(numbers) for topic, numbers in sorted(one.member.assignment.items())},
    }
    return as_json(one.member, _LEAVING, own)
