"""`--max-lag`: a step is over only when the group has caught up, and an unknown lag is none that is small enough."""

from __future__ import annotations

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.kafka.records import produce
from tests.operations.rollout.units import JoinedUnits, kgm

pytestmark = pytest.mark.slow
FLAGS = ["--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "--step-timeout", "1s"]


def test_a_group_that_lags_is_waited_for(tmp_path):
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with (
        serve_in_thread(topics={"lagging": 2}, settings=settings) as server,
        JoinedUnits(server.bootstrap, tmp_path, {"group": "g", "topic": "lagging"}) as units,
    ):
        units.form(server, ["a", "b"], partitions=2)
        produce(server.bootstrap, "lagging", [b"one", b"two"], [0])
        command = f"{units.command} restart {{instance_id}}"
        journal = str(tmp_path / "j.ndjson")
        ended = kgm(
            tmp_path, server.bootstrap, "rollout", "--yes", "g", "-i", "a", "--accept-unseen", "--exec", command, *FLAGS,
            "--max-lag", "1", "--journal", journal,
        )  # fmt: skip
        assert ended.code == 8
        assert "its lag is not at most 1: lag 0, but no committed offset for lagging[0]" in ended.err
        assert units.members["a"].commit(0, 0) == 0
        ended = kgm(tmp_path, server.bootstrap, "rollout", "--yes", "--resume", journal)
        assert ended.code == 8
        assert "its lag is not at most 1: lag 2" in ended.err
        assert units.members["a"].commit(0, 1) == 0
        assert kgm(tmp_path, server.bootstrap, "rollout", "--yes", "--resume", journal).code == 0
        assert units.calls == [("restart", "a")]
