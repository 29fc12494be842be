"""The JSON of `kgm scale-in`: the members that leave, the prediction, and the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.invocation import with_cluster
from kgm.cli.output.contracts import simulate_bounce
from kgm.cli.output.contracts.groups import PARTITIONS

if TYPE_CHECKING:
    from kgm.operations.scale_in.scale_in import ScaleIn

FORMS: Final[dict[str, dict[str, Any]]] = {
    "scale-in": {
        "group_id": "str",
        "stateful_set": "str",
        "replicas": "int",
        "first": "int",
        "leaving": [
            {
                "group_instance_id": "str?",
                "member_id": "str",
                "client_host": "str",
                "pod": "str",
                "ordinal": "int",
                "ordinal_because": "str",
                "assignment": PARTITIONS,
            }
        ],
        "staying": ["str"],
        "scenario": simulate_bounce.FORMS["simulate-bounce"]["scenarios"][0],
        "commands": {"scale": "str", "wait": "str", "remove": "str?"},
    }
}


def scale_in_json(planned: ScaleIn) -> dict[str, Any]:
    """The `data` of the envelope."""
    return {
        "group_id": planned.group.group_id,
        "stateful_set": planned.stateful_set,
        "replicas": planned.replicas,
        "first": planned.first,
        "leaving": [
            {
                "group_instance_id": one.member.group_instance_id,
                "member_id": one.member.member_id,
                "client_host": one.member.client_host,
                "pod": one.pod,
                "ordinal": one.ordinal,
                "ordinal_because": one.why,
                "assignment": {topic: list(numbers) for topic, numbers in sorted(one.member.assignment.items())},
            }
            for one in planned.leaving
        ],
        "staying": list(planned.staying),
        "scenario": planned.prediction.to_json(),
        "commands": {
            "scale": with_cluster(planned.commands.scale),
            "wait": with_cluster(planned.commands.wait),
            "remove": None if planned.commands.remove is None else with_cluster(planned.commands.remove),
        },
    }
