"""A topic gets more partitions between the preview of a removal and the request."""

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kgm.server import serve_in_thread
from tests.cli.commands.test_remove_members import remove, shown  # noqa: F401
from tests.client.conftest import TOPIC, form, group, proxy  # noqa: F401
from tests.client.faults import Delay, Pass
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.usefixtures("nobody_returns")
UNOWNED = "2 subscribed partitions have no owner, for example orders-6"


@pytest.fixture
def server():
    """One of its own, because topics do not shrink."""
    with serve_in_thread(topics={TOPIC: 6}, settings=BrokerSettings(group_initial_rebalance_delay_ms=0)) as running:
        yield running


@pytest.mark.parametrize("is_raised", [False, True])
def test_what_is_told_at_the_end_is_of_the_group_as_it_was_last(remove, server, proxy, form, is_raised):  # noqa: F811
    form(*"abcdef")

    def raise_partitions():
        with WireClient(server.port) as wire:
            topic = CreatePartitionsTopic(name=TOPIC, count=8, assignments=None)
            assert wire.ask(CreatePartitionsRequest(topics=[topic])).results[0].error_code == 0

    if is_raised:  # at the third OffsetFetch, after description and watch
        proxy.script(ApiKey.OFFSET_FETCH, Pass(), Pass(), Delay(0, before=raise_partitions))
    quick = ("--assume-stopped", "--guard-window", "0s", "--timeout", "60s")
    code, document, err = remove("--instance-ids", "a", "--yes", quick=quick)
    assert (code, shown(document)) == (0, [("a", "removed", None)])
    moves, warnings = (document["data"][key] for key in ("moves_expected", "warnings"))
    assert (moves is None) is is_raised
    assert any(UNOWNED in text for text in warnings) is is_raised
    assert (UNOWNED in err) is is_raised
