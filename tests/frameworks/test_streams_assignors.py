"""Where tasks of Kafka Streams are placed, held against Kafka's own classes: on processes, and on their threads."""

from collections import Counter

import pytest

from kgm.frameworks.sticky_tasks import place_stickily
from kgm.frameworks.streams_assignors import StreamsProcess, StreamsSettings, place_highly_available, tasks_of_threads
from tests.frameworks.kafkas_classes import PLACEMENTS, STREAMS_ASSIGNOR_ORACLE, STREAMS_JARS, cases, recorded
from tests.selection import first_seed


def check(case):
    known = {
        name: StreamsProcess(threads=len(one["had"]), lags=one["lags"], tags=one["tags"])
        for name, one in case["processes"].items()
    }
    settings = StreamsSettings(
        standbys=case["standbys"], warmups=case["warmups"], acceptable_lag=case["acceptable_lag"], tags=case["tags"]
    )
    made = place_highly_available(known, case["tasks"], case["stateful"], settings)
    assert made.is_final == case["is_final"]
    for name, one in case["processes"].items():
        assert (sorted(made.active[name]), sorted(made.standby[name])) == (
            sorted(one["active"]),
            sorted(one["standby"]),
        )
        check_threads(one, {*case["stateful"]})
    check_stickily(case)


def check_stickily(case):
    """Kafka goes through standby tasks in the order of identity hash codes, which differ from run to run: so they are
    held to their number, and each to a process of its own."""
    known = {
        name: StreamsProcess(threads=len(one["had"]), had_active=one["had_active"], had_standby=one["had_standby"])
        for name, one in case["processes"].items()
    }
    made = place_stickily(known, case["tasks"], case["stateful"], case["standbys"])
    wanted = {name: sorted(one["sticky_active"]) for name, one in case["processes"].items()}
    assert {name: sorted(some) for name, some in made.active.items()} == wanted
    copies = Counter(task for some in made.standby.values() for task in some)
    assert copies == Counter(task for one in case["processes"].values() for task in one["sticky_standby"])
    assert all(made.active[name].isdisjoint(made.standby[name]) for name in known)


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
    assert {len(case["tags"]) for case in found if case["standbys"] and len(case["processes"]) > 2} == {0, 1, 2}
    for case in found:
        check(case)


@pytest.mark.kafka
@pytest.mark.long
def test_other_placements():
    for case in cases(STREAMS_ASSIGNOR_ORACLE, STREAMS_JARS, first_seed(), 500):
        check(case)
