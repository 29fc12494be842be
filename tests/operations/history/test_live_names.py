"""The live history asks the cluster for the names of topics that no record has."""

from kgm.client import connect
from kgm.operations.history import explain_group
from kgm.operations.history.group_rows import owners
from kgm.operations.history.live import LiveHistory, LiveRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.server import serve_in_thread
from tests.server.wire_client import WireClient


def test_a_group_that_has_committed_nothing(tmp_path):
    with (
        serve_in_thread(topics={"orders": 3}, data_dir=tmp_path) as server,
        connect(server.bootstrap, timeout_ms=30_000) as cluster,
        WireClient(server.port) as member,
    ):
        answer = member.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=60_000,
                subscribed_topic_names=["orders"], topic_partitions=[],
            )
        )  # fmt: skip
        assert answer.error_code == 0
        live = LiveHistory(cluster, LiveRequest(group_id="g"))
        history = live.read()
        assert {(row.topic, row.topic_partition) for row in owners(history, "g")} == {("orders", n) for n in range(3)}
        assert {move.topic for move in explain_group(history, "g").moves} == {"orders"}
        assert cluster.topic_names([b"\1" * 16]) == {}  # a topic that was deleted keeps its id
