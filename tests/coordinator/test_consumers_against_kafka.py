"""Random histories of consumer groups (KIP-848), in lockstep with Apache Kafka's own coordinator (4.3.0) in a JVM.

See `test_against_kafka`, whose environment variables count here too: every third history is one of members of the new
protocol only, the others mix the protocols."""

from collections import Counter

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep")

from tests.coordinator.consumer_walk import ConsumerWalk  # noqa: E402
from tests.coordinator.lockstep import KafkasCoordinator  # noqa: E402
from tests.coordinator.test_against_kafka import FIRST, OPERATIONS, SEEDS, report  # noqa: E402


@pytest.fixture(scope="module")
def kafka():
    coordinator = KafkasCoordinator()
    yield coordinator
    coordinator.close()


def history(kafka, seed):
    """One history; None, or the difference that ended it."""
    walk = ConsumerWalk(kafka, seed, mixed=seed % 3 != 0)
    try:
        walk.go(OPERATIONS * (4 if seed % 10 == 0 else 1))
    except Exception as difference:  # noqa: BLE001  (whatever goes wrong in it)
        return walk.step, difference
    return walk.step, None


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(max(600, SEEDS * OPERATIONS // 50))
def test_random_histories_of_consumer_groups_are_kafkas(kafka):
    """Whatever the history, our coordinator does what Kafka's does."""
    seen = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        step, difference = history(kafka, seed)
        assert difference is None, report(kafka, seed, step, difference)
        assert len(step.deeds) >= OPERATIONS
        seen += step.seen
    print(seen)
