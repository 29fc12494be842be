"""What Kafka's classes write is read as they read it, and nothing else than DecodeError comes of other bytes."""

import contextlib
import random

import pytest

from kgm.client.framework_groups import streams_group
from kgm.frameworks.connect import decode_worker_assignment, decode_worker_metadata
from kgm.frameworks.streams import decode_streams_assignment, decode_streams_subscription
from kgm.model.errors import DecodeError
from tests.frameworks.kafkas_classes import ORACLES, cases, recorded
from tests.selection import first_seed

DECODERS = {
    ("StreamsOracle", "subscription"): decode_streams_subscription,
    ("StreamsOracle", "assignment"): decode_streams_assignment,
    ("ConnectOracle", "metadata"): decode_worker_metadata,
    ("ConnectOracle", "assignment"): decode_worker_assignment,
}


def test_a_thread_has_the_version_that_it_writes():
    subscriptions = [one for one in recorded() if one["kind"] == "subscription" and "version" in one]
    group = streams_group([(bytes.fromhex(one["data"]), None) for one in subscriptions])
    assert [work.metadata_version for work in group.work] == [one["version"] for one in subscriptions]


def decoder(case):
    return DECODERS[case["driver"], case["kind"]]


def as_kafka_has_it(case):
    """Kafka keeps maps and sets without an order; connectors and tasks come apart."""
    wanted = {key: value for key, value in case.items() if key not in ("driver", "kind", "data")}
    if "active_tasks" in wanted:
        wanted["active_tasks"] = list(dict.fromkeys(wanted["active_tasks"]))
        wanted["standby_tasks"] = {task: sorted(some) for task, some in wanted["standby_tasks"].items()}
        wanted["endpoints"].sort()
    for key in wanted.keys() & {"current", "assigned", "revoked"}:
        wanted[key] = sorted(map(tuple, wanted[key]))
    if "offset" in wanted:
        wanted["config_offset"] = wanted.pop("offset")
    return wanted


def as_read(case):
    read = decoder(case)(bytes.fromhex(case["data"]))
    found = {key: getattr(read, key) for key in as_kafka_has_it(case) if key != "error"}
    if "error" in case:
        found["error"] = read.error_code
    if "active_tasks" in found:
        found["active_tasks"] = list(found["active_tasks"])
        found["standby_tasks"] = {
            task: sorted(f"{topic}:{partition}" for topic, partition in some)
            for task, some in found["standby_tasks"].items()
        }
        found["endpoints"] = sorted(found["endpoints"])
    for key in found.keys() & {"current", "assigned", "revoked"}:
        found[key] = sorted(found[key])
    return found


def test_recorded_cases():
    found = recorded()
    assert len(found) == sum(count for _, _, count in ORACLES)
    assert {(case["kind"], case["version"]) for case in found if case["driver"] == "StreamsOracle"} == {
        (kind, version) for kind in ("subscription", "assignment") for version in range(1, 12)
    }
    for case in found:
        assert as_read(case) == as_kafka_has_it(case), case


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize(("driver", "jars"), [(driver, jars) for driver, jars, _ in ORACLES])
def test_other_cases(driver, jars):
    for case in cases(driver, jars, first_seed(), 2_000):
        assert as_read(case) == as_kafka_has_it(case), case


def test_bytes_that_end_early():
    for case in recorded():
        data = bytes.fromhex(case["data"])
        for end in range(len(data)):
            try:
                decoder(case)(data[:end])
            except DecodeError:
                continue
            # Kafka reads such bytes too: fields that may be missing.
            assert case["driver"] == "ConnectOracle", (case, end)


def test_other_bytes():
    for number, case in enumerate(recorded()):
        rng = random.Random(number)
        data = bytearray.fromhex(case["data"])
        for _ in range(60):
            changed = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                changed[rng.randrange(len(changed))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            with contextlib.suppress(DecodeError):
                decoder(case)(bytes(changed))


@pytest.mark.parametrize("decode", [decode_streams_assignment, decode_streams_subscription])
@pytest.mark.parametrize("version", [-1, 0, 12])
def test_versions_that_are_not_known(decode, version):
    with pytest.raises(DecodeError, match=r"version -?\d+; 1 to 11 are known"):
        decode(version.to_bytes(4, "big", signed=True) + bytes(100))
