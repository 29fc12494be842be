"""Connect's assignors, held against Kafka's own: over whole histories, in which the leader remembers."""

import pytest

from kgm.frameworks.connect_assignors import LeaderState, assign_eagerly, assign_incrementally
from tests.frameworks.kafkas_classes import ASSIGNOR_ORACLE, HISTORIES, cases, recorded
from tests.selection import first_seed


def as_work(found):
    return {name: sorted(map(tuple, work)) for name, work in found.items()}


def check(case):
    if case["kind"] == "eager":
        assert as_work(assign_eagerly(map(tuple, case["configured"]), case["assigned"])) == as_work(case["assigned"])
        return
    state = LeaderState()
    for each in case["rounds"]:
        made, state = assign_incrementally(
            state,
            [*map(tuple, each["configured"])],
            {name: [*map(tuple, work)] for name, work in each["running"].items()},
            now_ms=each["now"],
            max_delay_ms=case["max_delay_ms"],
            last_generation=each["last"],
            generation=each["generation"],
        )
        found = (as_work(made.assigned), as_work(made.revoked), made.delay_ms)
        assert found == (as_work(each["assigned"]), as_work(each["revoked"]), each["delay_ms"]), each


def test_recorded_histories():
    found = recorded(HISTORIES)
    kinds = [case["kind"] for case in found]
    assert (kinds.count("incremental"), kinds.count("eager")) == (8, 2)
    rounds = [each for case in found if case["kind"] == "incremental" for each in case["rounds"]]
    assert any(each["delay_ms"] for each in rounds)
    assert any(any(each["revoked"].values()) for each in rounds)
    for case in found:
        check(case)


@pytest.mark.kafka
@pytest.mark.long
def test_other_histories():
    for case in cases(ASSIGNOR_ORACLE, "kafka", first_seed(), 1_000):
        check(case)
