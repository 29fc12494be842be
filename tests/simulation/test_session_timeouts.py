"""Any session timeout, for any kind of group: a prediction, or an error that says why there is none."""

import itertools
import time
from dataclasses import replace

import pytest

from kgm.model.errors import TimedOutError, UsageError
from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.simulation.connect.test_connect_bounce import workers
from tests.simulation.groups import DYNAMIC, STATIC, ids, made_up
from tests.simulation.streams.applications import application, streams_group

pytestmark = pytest.mark.slow

#: The heartbeat interval of the protocols that have it from the broker: KIP-848 and KIP-1071.
INTERVAL_MS = 5_000
SESSIONS_MS = (1, 10, 3_000, INTERVAL_MS, INTERVAL_MS + 1, 45_000, 3_600_000)
TIME_S = 0.2


def consumers(membership):
    return synthetic_group(3, [TopicSnapshot(name="t", partitions=6)], membership, "uniform", GroupProtocol.CONSUMER)


GROUPS = {
    "static": made_up(3, 6), "dynamic": made_up(3, 6, DYNAMIC), "cooperative": made_up(3, 6, STATIC, "cooperative-sticky"),
    "KIP-848, static": consumers(STATIC), "KIP-848, dynamic": consumers(DYNAMIC), "Kafka Streams": application(),
    "KIP-1071": streams_group(), "Connect": workers(),
}  # fmt: skip


@pytest.mark.parametrize(("minimum_ms", "most"), [(6_000, 0), (500, 2)])
def test_a_session_that_is_not_known_may_be_as_short_as_the_broker_allows(minimum_ms, most):
    """Seen: sessions of 1.5 s where the broker allows them, and members that were away for 2.5 s."""
    group = replace(made_up(3, 6), session_timeout_ms=None)
    settings = {"group.min.session.timeout.ms": str(minimum_ms)}
    found = simulate(group, Plan(bounce=ids(group, 0), restart_time_ms=2_500, settings=settings), draws=5)
    rebalances = found.ranges.rebalances.max if found.ranges else found.typical.rebalances
    assert (rebalances, found.exact) == (most, most == 0)


@pytest.mark.long
@pytest.mark.parametrize("kind", GROUPS)
def test_any_session_timeout_has_an_answer(kind):
    group, answers = GROUPS[kind], []
    for session_ms, stop, rolling in itertools.product(SESSIONS_MS, Stop, (None, Rolling())):
        what_if = WhatIf(session_timeout_ms=session_ms)
        plan = Plan(bounce=ids(group), stop=stop, rolling=rolling, what_if=what_if)
        end_s = time.monotonic() + TIME_S
        try:
            found = simulate(group, plan, draws=1, is_out_of_time=lambda end_s=end_s: time.monotonic() > end_s)
        except TimedOutError:
            pass  # members that heartbeat too late join again and again
        except UsageError:
            assert kind == "KIP-1071"
            assert session_ms <= INTERVAL_MS
        else:
            assert kind != "KIP-1071" or session_ms > INTERVAL_MS, "no broker starts with this"
            answers.append(found)
    assert answers
