"""The JSON of `kgm assign`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.model.forms.snapshot_form import PARTITIONS

if TYPE_CHECKING:
    from kgm.assignors.json_cases import AssignmentCase
    from kgm.model.assignment import Assignment

FORMS: Final[dict[str, dict[str, Any]]] = {
    "assign": {"cases": [{"case": "any", "assignor": "str", "assignment": {"*": PARTITIONS}}]}
}


def line_json(case: AssignmentCase, assignment: Assignment) -> dict[str, Any]:
    """A line of NDJSON."""
    return {"case": case.case, "assignment": assignment}


def case_json(case: AssignmentCase, assignment: Assignment) -> dict[str, Any]:
    """An entry of `data.cases`."""
    return {"case": case.case, "assignor": case.assignor, "assignment": assignment}
