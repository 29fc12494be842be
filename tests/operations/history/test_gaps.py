"""Groups of which compaction has removed records: nothing may say that nothing happened to them."""

import pyarrow as pa
import pytest

from kgm.history.derive import derive
from kgm.history.folders import Reading
from kgm.history.in_process import derive_source, read_source
from kgm.history.rows import TenureRow
from kgm.history.store.tables import TablesInMemory
from kgm.history.verify import verify
from kgm.operations.history.explanation import explain_group
from kgm.operations.history.gaps import incomplete_groups
from kgm.operations.history.source import History, HistorySource
from kgm.records.record import decode_record
from kgm.records.record_types import RecordType
from tests.history.test_framework_groups import share_log, streams_log
from tests.history.truth.consumer_lives import ConsumerWorld
from tests.history.truth.lives import GROUP, World
from tests.records.real_logs import DATA


def compacted(raw):
    """What the log cleaner leaves: of each key the last record, at its offset."""
    newest = {row["key"]: row for row in raw.to_pylist() if not row["control"]}
    return pa.Table.from_pylist(sorted(newest.values(), key=lambda row: row["offset"]), schema=raw.schema)


def whole(kind):
    """The log of a group that has rebalanced, and whose last record has members."""
    world = kind(1)
    clients = world.clients = [world.client(world, name, None, ["orders"]) for name in ("one", "two", "three")]
    for client in clients:
        client.start()
        world.run(10_000)
    clients[0].close()
    world.run(30_000)
    return world.log.raw()


def opened(raw, source=None, **window):
    return History(
        source=source or HistorySource(path=DATA), tables=TablesInMemory(tables=derive(raw).tables), **window
    )


@pytest.fixture(params=[World, ConsumerWorld], ids=["classic", "consumer"])
def log(request):
    return whole(request.param)


def test_a_log_with_nothing_removed_has_no_gap(log):
    assert incomplete_groups(opened(log)) == {}
    assert opened(log).rebalances(GROUP)


def test_a_gap_that_no_rebalance_follows_is_found(log):
    """Since when nothing is missing is what `verify` finds in the records."""
    raw = compacted(log)
    (group,) = verify(raw).groups
    assert not group.complete
    assert incomplete_groups(opened(raw)) == {GROUP: group.complete_since}
    assert explain_group(opened(raw), GROUP).complete is False
    assert incomplete_groups(opened(raw, since_ms=group.complete_since + 1)) == {}
    assert incomplete_groups(opened(raw), match="other*") == {}


@pytest.mark.parametrize(
    ("group_id", "raw", "kind"),
    [("app", streams_log(), RecordType.STREAMS_GROUP_METADATA), ("s", share_log(), RecordType.SHARE_GROUP_METADATA)],
    ids=["streams", "share"],
)
def test_a_group_of_another_type_is_complete_from_its_last_gap_on(group_id, raw, kind):
    """Of its epochs, only the record of the last one is left, which is much later than that of its first member."""
    assert incomplete_groups(opened(raw)) == {}
    left = compacted(raw)
    (epoch,) = (row for row in left.to_pylist() if kind == decode_record(row["key"], row["value"]).key.API_KEY)
    history = opened(left)
    assert history.rebalances(group_id) == []
    assert incomplete_groups(history) == {group_id: epoch["timestamp"]}
    assert incomplete_groups(opened(left, since_ms=epoch["timestamp"] + 1)) == {}


@pytest.mark.few(1)
@pytest.mark.parametrize("folder", ["plain", "compacted"])
def test_the_gaps_of_a_real_log_are_those_that_verify_finds(folder):
    tables = derive_source("segments", DATA / folder, most_bytes=1 << 30)
    raw = read_source("segments", DATA / folder, most_bytes=1 << 30, reading=Reading())
    verdicts = sorted(verify(raw).groups, key=lambda each: each.complete_since)
    history = History(source=HistorySource(path=DATA), tables=tables)
    # Of a group that changed its type there are two verdicts; streams and share groups are not in them.
    expected = {each.group_id: each.complete_since for each in verdicts if not each.complete}
    types = {row.group_id: row.group_type for row in tables.rows(TenureRow, history.all_times())}
    found = {name: at for name, at in incomplete_groups(history).items() if types.get(name) not in {"streams", "share"}}
    assert found.keys() == expected.keys()
    # The record that deletes a group is in no table if nothing else of it is left.
    deleted = {each.group_id for each in verdicts if each.first < 0}
    assert {name for name, at in found.items() if at != expected[name]} <= deleted
