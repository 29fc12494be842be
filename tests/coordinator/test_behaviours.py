"""Behaviours and tests find each other: every behaviour has a test, every mark a behaviour, and the page is current.

`KGM_WRITE_DOCS=1` writes docs/behaviours.md again."""

import os
import subprocess

import pytest

from tests.coordinator.behaviours import PAGE, ROOT, catalogue, marked_tests, page

METHODS = ROOT / "tests" / "coordinator" / "java" / "Methods.java"
#: Packages of Kafka, below org.apache.kafka, that have the classes of the catalogue.
PACKAGES = (
    "coordinator.group", "coordinator.group.classic", "coordinator.group.modern", "coordinator.group.modern.consumer",
    "coordinator.group.streams", "coordinator.group.streams.topics", "common.requests",
)  # fmt: skip


def test_the_catalogue_is_complete():
    numbers = [behaviour.number for behaviour in catalogue()]
    assert numbers == [f"B{number:03}" for number in range(1, len(numbers) + 1)]
    assert len(numbers) >= 114


@pytest.mark.parametrize("behaviour", catalogue(), ids=lambda behaviour: behaviour.number)
def test_every_behaviour_has_a_module_and_a_test(behaviour):
    assert (ROOT / "kgm" / "coordinator" / behaviour.module).is_file()
    assert [test for test in marked_tests() if behaviour.number in test.numbers]


def test_every_mark_names_a_behaviour():
    known = {behaviour.number for behaviour in catalogue()}
    assert {number for test in marked_tests() for number in test.numbers} <= known


def test_the_page_is_current():
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "KGM_WRITE_DOCS=1 writes it again"


@pytest.mark.kafka
@pytest.mark.slow
def test_kafka_has_these_classes_and_methods():
    from tests.kafka.jars import classpath
    from tests.kafka.java_tools import compiled, java_command

    methods = {}
    for behaviour in catalogue():
        name, _, method = behaviour.kafka.partition("(")[0].partition(".")
        methods.setdefault(name, set()).add(method)
    packages = [f"org.apache.kafka.{each}" for each in PACKAGES]
    candidates = [f"{package}.{name}" for package in packages for name in methods]
    path = classpath("coordinator-tests")
    path = f"{path}{os.pathsep}{compiled([METHODS], path)}"
    done = subprocess.run(
        java_command("Methods", *candidates, class_path=path), capture_output=True, text=True, check=True
    )
    found = {name: set(declared) for name, *declared in map(str.split, done.stdout.splitlines())}
    assert found.keys() >= methods.keys()
    for name, wanted in methods.items():
        assert wanted - {""} <= found[name], name
