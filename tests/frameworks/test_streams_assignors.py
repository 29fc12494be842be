"""Where tasks of Kafka Streams are placed, held against Kafka's own classes: on processes, and on their threads."""

import pytest

from kgm.frameworks.streams_assignors import StreamsProcess, StreamsSettings, place_highly_available, tasks_of_threads
from tests.frameworks.kafkas_classes import PLACEMENTS, STREAMS_ASSIGNOR_ORACLE, STREAMS_JARS, cases, recorded
from tests.selection import first_seed


def check(case):
    known = {name: StreamsProcess(threads=len(one["had"]), lags=one["lags"]) for name, one in case["processes"].items()}
    settings = StreamsSettings(
        standbys=case["standbys"], warmups=case["warmups"], acceptable_lag=case["acceptable_lag"]
    )
    made = place_highly_available(known, case["tasks"], case["stateful"], settings)
    assert made.is_final == case["is_final"]
    for name, one in case["processes"].items():
        assert (sorted(made.active[name]), sorted(made.standby[name])) == (
            sorted(one["active"]),
            sorted(one["standby"]),
        )
        check_threads(one, {*case["stateful"]})


def check_threads(process, stateful):
    """What is left after the tasks that threads had is dealt out in the order of a heap: so the number of tasks of each
    thread is the same, and those that it keeps."""
    had, loads = process["had"], {}
    for kind, tasks in (
        ("stateful", stateful.intersection(process["active"])),
        ("standby", process["standby"]),
        ("stateless", {*process["active"]} - stateful),
    ):
        made = tasks_of_threads(tasks, had, had, process["lags"], loads, is_stateful=kind != "stateless")
        wanted = process[f"{kind}_threads"]
        assert {name: len(some) for name, some in made.items()} == {name: len(some) for name, some in wanted.items()}
        assert sorted(task for some in made.values() for task in some) == sorted(tasks)
        if kind != "stateless":
            kept = {name: {*some} & {*had[name]} for name, some in made.items()}
            assert kept == {name: {*some} & {*had[name]} for name, some in wanted.items()}


def test_recorded_placements():
    found = recorded(PLACEMENTS)
    assert len(found) == 50
    assert {case["is_final"] for case in found} == {True, False}
    assert {case["standbys"] for case in found} == {0, 1, 2, 3}
    for case in found:
        check(case)


@pytest.mark.kafka
@pytest.mark.long
def test_other_placements():
    for case in cases(STREAMS_ASSIGNOR_ORACLE, STREAMS_JARS, first_seed(), 500):
        check(case)
