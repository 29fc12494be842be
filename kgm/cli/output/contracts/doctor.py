"""The JSON of `kgm doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.model.forms.json_form import as_json

if TYPE_CHECKING:
    from kgm.operations.doctor.diagnosis import Diagnosis
    from kgm.operations.doctor.findings import Finding

_FINDING: Final[dict[str, Any]] = {
    "group_id": "str",
    "check": "str",
    "severity": "=error|warning|info",
    "message": "str",
    "evidence": ["str"],
    "about": ["str"],
    "next_command": "str?",
}
_IGNORED: Final[dict[str, Any]] = {
    **{key: _FINDING[key] for key in ("group_id", "check", "severity", "message")},
    "reason": "str",
}
_DIAGNOSIS: Final[dict[str, Any]] = {
    "groups": ["str"],
    "findings": [_FINDING],
    "ignored": [_IGNORED],
    "skipped": [{"checks": "str", "why": "str"}],
    "window_ms": "int",
    "history": "str?",
}
FORMS: Final[dict[str, dict[str, Any]]] = {"doctor": _DIAGNOSIS}


def finding_json(finding: Finding) -> dict[str, Any]:
    """An entry of `data.findings`."""
    return as_json(finding, _FINDING)


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """`data`."""
    own = {
        "groups": list(diagnosis.group_ids),
        "findings": map(finding_json, diagnosis.findings),
        "ignored": [as_json(one.finding, _IGNORED, {"reason": one.reason}) for one in diagnosis.ignored],
        "skipped": [{"checks": ", ".join(one.checks), "why": one.why} for one in diagnosis.skipped],
    }
    return as_json(diagnosis, _DIAGNOSIS, own)
