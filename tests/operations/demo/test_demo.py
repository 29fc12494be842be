"""The demo, without a terminal; tests/cli/commands/test_demo.py plays it to its end."""

from __future__ import annotations

import pytest

from kgm.operations.demo.demo import CoordinatorStarted, run_demo


@pytest.mark.slow
def test_a_demo_that_is_not_finished_leaves_nothing_running():
    running = run_demo()
    started = next(running)
    assert isinstance(started, CoordinatorStarted)
    running.close()
    from kgm.client import connect
    from kgm.model.errors import UnreachableError

    with pytest.raises(UnreachableError):
        connect(started.bootstrap, timeout_ms=2_000)
