"""What a new release of Kafka changes. Not in the default suite, because it depends on what there is today:

    pytest --canary -s tests/kafka/test_canary.py

It looks up the newest release, fetches it, and compares it with the newest version that kgm knows: the schemas of
requests and records, random histories in lockstep, and the wire stories on a broker. It prints what is different, and
fails if anything is. `--canary 4.5.0` takes that version. docs/new-kafka.md says what to do then."""

import asyncio
import json
import re
import zipfile

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver")

from tests.coordinator.lockstep import test_classic_histories, test_consumer_histories  # noqa: E402
from tests.coordinator.lockstep.driver import KafkasCoordinator  # noqa: E402
from tests.coordinator.lockstep.test_classic_histories import report  # noqa: E402
from tests.kafka.jars import (  # noqa: E402
    NEWEST_VERSION,
    add_broker,
    jars,
    newest_release,
)
from tests.kafka.java_tools import CompilationError  # noqa: E402
from tests.kafka.versions import broker_of  # noqa: E402
from tests.selection import canary  # noqa: E402
from tests.server.wire import story  # noqa: E402
from tests.server.wire.brokers import IN_ORDER, SETTINGS  # noqa: E402
from tests.server.wire.play import TOPICS, Server, play_all  # noqa: E402

SEEDS = 200


def schemas(version):
    """Every schema of a message or record by name, without comments and descriptions."""
    found = {}
    for jar in ("kafka-clients", "kafka-group-coordinator"):
        with zipfile.ZipFile(jars(f"kafka-{version}") / f"{jar}-{version}.jar") as archive:
            for name in archive.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    text = re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode())
                    found[name.rpartition("/")[2][:-5]] = without_descriptions(json.loads(text))
    return found


def without_descriptions(value):
    if isinstance(value, list):
        return [without_descriptions(row) for row in value]
    if isinstance(value, dict):
        return {name: without_descriptions(row) for name, row in value.items() if name != "about"}
    return value


def schema_differences(new, known):
    ours, theirs = schemas(known), schemas(new)
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs or name not in ours:
            yield f"schema {name}: {'new' if name in theirs else 'gone'}"
        elif ours[name] != theirs[name]:
            yield f"schema {name}: {ours[name]['validVersions']} before, {theirs[name]['validVersions']} now"


def history_differences(new, known):
    """Of each kind of history the first one that is not as the engine plays it."""
    try:
        kafka = KafkasCoordinator(new, played_as=known)
    except CompilationError as failure:
        yield f"lockstep: tests/coordinator/lockstep/java does not fit: {failure}"
        return
    try:
        for kind, histories in (("classic", test_classic_histories), ("consumer", test_consumer_histories)):
            for seed in range(SEEDS):
                step, difference = histories.history(kafka, seed)
                if difference is not None:
                    yield f"lockstep, {kind} histories: {report(kafka, seed, step, difference)}"
                    break
    finally:
        kafka.close()


def answers(version, stories):
    async def play(address):
        return await play_all(stories, await Server.meet(address))

    with broker_of(version, {**SETTINGS["quick"], **IN_ORDER}) as cluster:
        cluster.create_topics(TOPICS)
        return asyncio.run(play(cluster.bootstrap.partition(",")[0]))


def story_differences(new, known):
    stories = [one for one in story.load() if one.broker == "quick"]
    before, now = answers(known, stories), answers(new, stories)
    for one in stories:
        if str(before[one.name]) != str(now[one.name]):
            yield f"story {one.theme}: {one.name}"


@pytest.mark.skipif(canary() is None, reason="--canary is not given")
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_newest_release_of_kafka_is_known():
    new = newest_release() if canary() == "newest" else canary()
    print(f"\nnewest release: {new}; compared with {NEWEST_VERSION}")
    if new == NEWEST_VERSION:
        return
    add_broker(new)
    lines = []
    for differences in (schema_differences, history_differences, story_differences):
        for line in differences(new, NEWEST_VERSION):
            lines.append(line)
            print(line, flush=True)
    assert not lines, f"Kafka {new} differs from {NEWEST_VERSION} in {len(lines)} places: see docs/new-kafka.md"
