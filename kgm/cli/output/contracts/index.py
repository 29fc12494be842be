"""The forms of all commands except `history`."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts import (
    assign,
    audit,
    changes,
    config,
    demo,
    describe,
    diff,
    doctor,
    export,
    list,  # noqa: A004  (named after the command)
    simulate_bounce,
    version,
    wait,
    watch,
)
from kgm.cli.output.contracts.planning import drain, plan, rollout, scale_in

FORMS: Final[dict[str, dict[str, Any]]] = {
    name: form
    for module in (
        list, describe, changes, simulate_bounce, drain, plan, rollout, scale_in, watch, wait,
        doctor, diff, export, audit, assign, config, demo, version,
    )
    for name, form in module.FORMS.items()
}  # fmt: skip
