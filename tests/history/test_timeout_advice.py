"""How many rebalances a longer session timeout would have saved, against the same group driven with that timeout."""

import pytest

from kgm.history.rows import TimeoutAdviceRow
from tests.operations.history.advice.driven_twice import GROUP_ID, Life, Script, drive, history_of

#: A member is away for this time, which is more than a session.
AWAY_MS = 30_000


def group(*, together, members=6, restarts=4, clean=True):
    """Static members that restart in turn, each group of `together` at once."""
    lives = [
        Life(
            name=f"app-{number}",
            start=1_000 * number,
            restarts=tuple(
                (100_000 + 400_000 * turn + 60_000 * (number // together), AWAY_MS, clean) for turn in range(restarts)
            ),
        )
        for number in range(members)
    ]
    return Script(lives=tuple(lives), partitions=6, is_static=True, session_ms=10_000)


def rebalances(history):
    return len(history.rebalances(GROUP_ID))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 2, 3])
def test_a_rebalance_of_several_members_is_saved_once(together):
    script = group(together=together)
    before = history_of(drive(script))
    (advice,) = before.tables.rows(TimeoutAdviceRow, before.all_times(GROUP_ID))
    after = history_of(drive(script.but(session_ms=advice.advised_ms)))
    assert advice.verdict == "raise"
    assert advice.saved == rebalances(before) - rebalances(after)
    assert 0 < advice.saved < rebalances(before)
