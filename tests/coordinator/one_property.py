"""Runs a state machine with all its properties but one switched off, to see what that one finds alone."""

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

EXAMPLES = 400


def without(machine: type[RuleBasedStateMachine], names: Iterable[str]) -> type[RuleBasedStateMachine]:
    """The machine with those of these properties switched off that it has."""
    silent = {name: lambda *_: None for name in names if getattr(machine, name, None)}
    return type(machine.__name__, (machine,), silent)


def failure_of(machine: type[RuleBasedStateMachine], steps: int) -> list[str]:
    """Run the machine until it fails, in examples of `steps` steps; returns the names of the functions in the
    traceback."""
    with pytest.raises(Exception) as failure:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=steps,
                derandomize=True,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    return [entry.name for entry in failure.traceback]
