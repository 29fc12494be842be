"""What to run next, by what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgm.text.wording import typed


def next_steps(data: Mapping[str, Any], where: str) -> list[dict[str, str]]:
    """Commands that can be run, with why, the most telling first; `where` says which history."""
    group = typed(data["group_id"])
    counts = {each["cause"]: each["count"] for each in data["causes"]}
    found = []
    advice = data["timeout_advice"]
    if advice is not None and advice["verdict"] == "raise":
        found.append(("restarts outlast the session", f"kgm history timeouts {group} {where}"))
    elif counts.get("session-expiry"):
        found.append(("sessions expired: crashes, or slow restarts?", f"kgm history timeouts {group} {where}"))
    if _has_dynamic_bounces(data["rebalances"]):
        found.append(("would static members have spared it?", f"kgm simulate-bounce {group} --all --rolling --compare"))
    if any(each["lost_rounds"] for each in data["rebalances"]):
        found.append(("rounds were lost: who keeps it from settling?", f"kgm doctor {group}"))
    if data["alarms"]:
        found.append(("seats to look at", f"kgm history zombies {group} {where}"))
    if data["moves"]:
        found.append(("who owned what before and since", f"kgm history movement {group} {where}"))
    found.append(("who came and went", f"kgm history timeline {group} {where}"))
    if data["complete"] is False:
        found.append(("which part of it is whole", f"kgm history verify {where}"))
    return [{"why": why, "command": command} for why, command in found]


def _has_dynamic_bounces(rebalances: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a dynamic member came back: its identity is its member id."""
    return any(
        each["what"] == "returned" and each["identity"] == each["member_id"]
        for one in rebalances
        for each in one["who"]
    )
