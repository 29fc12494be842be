"""The JSON of `kgm doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kgm.operations.doctor.diagnosis import Diagnosis
    from kgm.operations.doctor.findings import Finding, IgnoredFinding

FORMS: Final[dict[str, dict[str, Any]]] = {
    "doctor": {
        "groups": ["str"],
        "findings": [
            {
                "group_id": "str",
                "check": "str",
                "severity": "=error|warning|info",
                "message": "str",
                "evidence": ["str"],
                "about": ["str"],
                "next_command": "str?",
            }
        ],
        "ignored": [
            {"group_id": "str", "check": "str", "severity": "=error|warning|info", "message": "str", "reason": "str"}
        ],
        "skipped": [{"checks": "str", "why": "str"}],
        "window_ms": "int",
        "history": "str?",
    }
}


def finding_json(finding: Finding) -> dict[str, Any]:
    """An entry of `data.findings`."""
    return {
        "group_id": finding.group_id,
        "check": finding.check,
        "severity": finding.severity,
        "message": finding.message,
        "evidence": list(finding.evidence),
        "about": list(finding.about),
        "next_command": finding.next_command,
    }


def _ignored_json(one: IgnoredFinding) -> dict[str, Any]:
    shown = finding_json(one.finding)
    return {key: shown[key] for key in ("group_id", "check", "severity", "message")} | {"reason": one.reason}


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """`data`."""
    return {
        "groups": list(diagnosis.group_ids),
        "findings": map(finding_json, diagnosis.findings),
        "ignored": [_ignored_json(one) for one in diagnosis.ignored],
        "skipped": [{"checks": ", ".join(one.checks), "why": one.why} for one in diagnosis.skipped],
        "window_ms": diagnosis.window_ms,
        "history": diagnosis.history,
    }
