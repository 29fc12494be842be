"""What a coordinator with plans writes is nothing but Kafka's: Kafka's own coordinator loads it, and goes on with it."""

import itertools
import random

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver")

from kgm.coordinator.contract.scale_out_plan import GroupPlans  # noqa: E402
from kgm.model.errors import ErrorCode as E  # noqa: E402
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest  # noqa: E402
from kgm.protocol.messages.sync_group_request import SyncGroupRequest  # noqa: E402
from tests.coordinator.classic.test_standby_stateful import play  # noqa: E402
from tests.coordinator.harness import Harness  # noqa: E402
from tests.coordinator.lockstep.driver import Lockstep  # noqa: E402
from tests.kafka.jars import KAFKA_VERSION  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
TWO = GroupPlans(target_sizes=(("g", 2),))


@pytest.fixture(scope="module")
def kafka(kafkas):
    return kafkas(KAFKA_VERSION)


def loaded(kafka, h, end=None):
    """Both coordinators, Kafka's and one without plans, after loading the log; they are compared at each step."""
    both = Lockstep(kafka)
    both.now = h.now
    both.log = [(record, None) for record in h.log[:end]]
    both.reload()
    return both


@pytest.mark.parametrize("gone", ["a", "b"])
def test_kafka_goes_on_with_a_group_in_which_a_spare_took_over(kafka, gone):
    h = Harness(plans=TWO)
    ids = dict(zip("ab", h.stable("a", "b"), strict=True))
    spare = h.join("", "s", v=9)
    h.leave(("", gone))
    member = h.got(spare).member_id
    assert h.state() == "Stable"
    both = loaded(kafka, h)
    sync = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=member, group_instance_id="s", protocol_type="consumer",
        protocol_name="range",
    )  # fmt: skip
    _, reply = both.answers[both.request(sync, 5)]
    assert (reply.error_code, reply.assignment) == (E.NONE, gone.encode())
    old = HeartbeatRequest(group_id="g", generation_id=1, member_id=ids[gone], group_instance_id=gone)
    _, reply = both.answers[both.request(old, 4)]
    assert reply.error_code == E.UNKNOWN_MEMBER_ID
    both.sleep(120_000)


def swaps(log):
    """How often somebody else took a member's place: other identities in the same generation."""
    rows = [record.value for record in log if getattr(record.value, "members", None)]
    seen = [(row.generation, sorted(m.group_instance_id or m.member_id for m in row.members)) for row in rows]
    return sum(a[0] == b[0] and a[1] != b[1] for a, b in itertools.pairwise(seen))


def test_kafka_loads_the_log_of_any_history_with_plans(kafka):
    found = 0
    for seed in range(16):
        h = Harness(plans=GroupPlans(target_sizes=(("g", 2 + seed % 2),)))
        play(h, random.Random(seed))
        found += swaps(h.log)
        for end in (len(h.log), len(h.log) // 2):
            both = loaded(kafka, h, end)
            both.sleep(120_000)
    assert found > 3
