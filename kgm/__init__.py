"""kgm: inspect, simulate and safely change Apache Kafka consumer-group membership.

The Python API, for tests, notebooks and other tools (docs/python.md). The command line calls the same functions.

connect            a cluster: describe and list its groups
GroupSnapshot      a group at one moment, as `kgm describe` shows it
simulate, Plan     what a planned bounce would do to a group
assign             Kafka's assignors as functions
plan_removal       what removing members would do, and whether a guard forbids it
execute_removal    remove them with one LeaveGroup (KIP-345), and report the result of each
explain            why a group rebalanced, from the records of `__consumer_offsets`
serve_in_thread    an embedded coordinator that real Kafka clients join (`kgm.testing` has pytest fixtures)
KgmError           the root of all errors that these raise

Nothing is imported until it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from kgm.version import __version__

if TYPE_CHECKING:
    from kgm.assignors import assign
    from kgm.client import connect
    from kgm.model.errors import KgmError
    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.history import explain
    from kgm.operations.removal.python_api import execute_removal, plan_removal
    from kgm.server import serve_in_thread
    from kgm.simulation.bounce import simulate
    from kgm.simulation.plan.bounce_plan import Plan

__all__ = [
    "GroupSnapshot",
    "KgmError",
    "Plan",
    "__version__",
    "assign",
    "connect",
    "execute_removal",
    "explain",
    "plan_removal",
    "serve_in_thread",
    "simulate",
]

_MODULES: Final = {
    "GroupSnapshot": "kgm.model.snapshot",
    "KgmError": "kgm.model.errors",
    "Plan": "kgm.simulation.plan.bounce_plan",
    "assign": "kgm.assignors",
    "connect": "kgm.client",
    "execute_removal": "kgm.operations.removal.python_api",
    "explain": "kgm.operations.history",
    "plan_removal": "kgm.operations.removal.python_api",
    "serve_in_thread": "kgm.server",
    "simulate": "kgm.simulation.bounce",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
