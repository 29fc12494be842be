"""The JSON of `kgm export`: one collection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from kgm.operations.export.collector import Collection

FORMS: Final[dict[str, dict[str, Any]]] = {
    "export": {
        "is_up": "bool",
        "collected_at": "float",
        "families": [
            {
                "name": "str",
                "type": "str",
                "help": "str",
                "samples": [{"name": "str", "labels": {"*": "str"}, "value": "float"}],
            }
        ],
    }
}


def collection_json(collection: Collection, families: Iterable[Metric]) -> dict[str, Any]:
    """`data`."""
    return {
        "is_up": collection.is_up,
        "collected_at": collection.at_s,
        "families": map(family_json, families),
    }


def family_json(family: Metric) -> dict[str, Any]:
    """An entry of `data.families`; its samples are made as they are printed."""
    samples = ({"name": one.name, "labels": dict(one.labels), "value": float(one.value)} for one in family.samples)
    return {"name": family.name, "type": family.type, "help": family.documentation, "samples": samples}
