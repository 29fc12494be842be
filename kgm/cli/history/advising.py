"""What to run next, by what was found."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any


def next_steps(data: Mapping[str, Any], where: str) -> list[dict[str, str]]:
    """Commands that can be run, with why, the most telling first; `where` says which history."""
    group = shlex.quote(data["group_id"])
    counts = {each["cause"]: each["count"] for each in data["causes"]}
    found = []
    advice = data["timeout_advice"]
    if advice is not None and advice["verdict"] == "raise":
        found.append(("restarts outlast the session", f"kgm history timeouts {group} {where}"))
    if any("bounce" in (cause or "") for cause in counts):
        found.append(("would static members have spared it?", f"kgm simulate-bounce {group} --all --rolling --compare"))
    if data["alarms"]:
        found.append(("seats to look at", f"kgm history zombies {group} {where}"))
    if data["moves"]:
        found.append(("who owned what before and since", f"kgm history movement {group} {where}"))
    found.append(("who came and went", f"kgm history timeline {group} {where}"))
    return [{"why": why, "command": command} for why, command in found]
