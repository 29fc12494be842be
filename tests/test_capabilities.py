"""A run without `--long` shows every capability once: what kgm can do, against what such a run has collected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from kgm.coordinator.contract.behavior import behavior_of
from kgm.model.broker_version import BrokerVersion
from kgm.simulation.plan.client_library import Library
from tests import ROOT
from tests.cli import test_exit_codes
from tests.cli.commands.history.endings import ENDINGS
from tests.coordinator.behaviours import catalogue
from tests.kafka.versions import VERSIONS
from tests.selection import TOGETHER, is_long

#: What has no list of its own in kgm: tests that show it on the real thing are marked `shows("…")`.
MARKED = {
    *(f"client {library.value}" for library in Library), "client kafka-python", "client aiokafka",
    "store directory", "store S3", "store HDFS", "store Delta", "Spark", "Spark from Kafka",
    "TLS", "SASL", "Kerberos", "MSK IAM", "ACLs",
    "wheel", "zipapp",
    "describe", "remove-members", "delete-groups", "rollout", "drain", "simulate-bounce", "top", "watch", "export", "history",
    "runbooks",
}  # fmt: skip


@pytest.fixture(scope="module")
def items(request) -> list[pytest.Item]:
    """All tests of the run, whichever process they run in."""
    config = request.config
    is_whole = [Path(one).resolve() for one in config.args] in ([ROOT / "tests"], [ROOT])
    if not is_whole or config.option.keyword or config.option.markexpr or is_long():
        pytest.skip("this run has not collected what a plain one does")
    return request.session.items


@pytest.fixture(scope="module")
def names(items) -> set[tuple[str, str]]:
    """(file, test with its parameters)"""
    return {(item.path.relative_to(ROOT).as_posix(), item.name) for item in items}


def marks(items: Collection[pytest.Item], name: str) -> Iterator[str]:
    for item in items:
        for mark in item.iter_markers(name):
            yield from mark.args


def test_every_exit_code_of_every_command(names):
    """That the cases have all commands, and all codes of each, is a test of their own module."""
    file = "tests/cli/test_exit_codes.py"
    wanted = {(file, f"test_exit_code[{case.id}]") for case in test_exit_codes.CASES}
    wanted |= {
        (file, f"test_whole_processes[{name.replace(' ', '-')}-{code}]") for name, code in test_exit_codes.PROCESSES
    }
    assert wanted <= names
    without_parameters = {(path, name.partition("[")[0]) for path, name in names}
    elsewhere = {(path, test) for _, path, test in test_exit_codes.ELSEWHERE.values()}
    assert elsewhere <= without_parameters
    of_history = [name for path, name in names if path == "tests/cli/commands/history/test_exit_codes.py"]
    assert len(of_history) >= len(ENDINGS)


def test_every_behaviour_of_the_coordinator(items):
    assert {behaviour.number for behaviour in catalogue()} <= set(marks(items, "rule"))


def test_every_generation_of_brokers(items):
    """Versions whose coordinators behave alike are one generation: one of them is played on jars of its own."""
    played = {
        value
        for item in items
        if item.get_closest_marker("kafka") and hasattr(item, "callspec")
        for value in item.callspec.params.values()
        if isinstance(value, str)
    } | {shown.removeprefix("Kafka ") for shown in marks(items, "shows")}
    generations = defaultdict(list)
    for version in VERSIONS:
        generations[behavior_of(BrokerVersion.parse(version.partition("+")[0]))].append(version)
    assert len(generations) >= 9
    assert [alike for alike in generations.values() if not played & set(alike)] == []


def test_every_client_store_login_and_way_in(items):
    assert MARKED - set(marks(items, "shows")) == set()


def test_files_that_share_what_is_dear_run_in_one_worker(items):
    dear = {"spark": "Spark", "kafkas": "Kafka's coordinators"}
    used = {
        (item.path.relative_to(ROOT).as_posix(), of)
        for item in items
        for name, of in dear.items()
        if name in item.fixturenames
    }
    assert used == {(file, of) for file, of in TOGETHER.items() if of in dear.values()}
