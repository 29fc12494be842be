"""Groups of which compaction has removed records: nothing may say that nothing happened to them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgm.cli.main import run
from kgm.history.derive import derive
from kgm.history.folders import Reading
from kgm.history.in_process import derive_source, read_source
from kgm.history.rows import TenureRow
from kgm.history.store.tables import TablesInMemory
from kgm.history.verify import verify
from kgm.operations.history.explanation import explain_group
from kgm.operations.history.gaps import incomplete_groups
from kgm.operations.history.source import History, HistorySource
from kgm.pipeline.options import SourceKind
from tests.history.store.stores import write_store
from tests.history.truth.consumer_lives import ConsumerWorld
from tests.history.truth.lives import GROUP, World
from tests.records.real_logs import DATA

_SAYS = "compaction has removed earlier records"
_LIVE = HistorySource(path=DATA, kind=SourceKind.KAFKA, connection="-b 127.0.0.1:1")


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


@pytest.fixture(params=["records", "store"])
def where(request, log, tmp_path):
    """The options for a compacted log, as files of records and as a built store (with or without Spark: its tables)."""
    raw = compacted(log)
    if request.param == "store":
        return ["--store", str(write_store(tmp_path / "store", derive(raw).tables, partitions=[0]))]
    (tmp_path / "raw").mkdir()
    pq.write_table(raw, tmp_path / "raw" / "part.parquet")
    return ["--source", f"parquet:{tmp_path / 'raw'}"]


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


@pytest.mark.parametrize(
    "words",
    [
        ["rebalances"], ["rebalances", GROUP], ["explain", GROUP], ["timeline", GROUP], ["movement", GROUP], ["churn"],
        ["timeouts", GROUP], ["zombies", GROUP], ["offsets", GROUP],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_answer_says_it(words, where, capsys):
    assert run(["history", *words, *where]) == 0
    out, err = capsys.readouterr()
    assert _SAYS in err
    assert "no rebalance in this window" not in out
    assert "0 rebalances" not in out
    assert "1970" not in out
    assert run(["history", *words, *where, "-o", "json"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert _SAYS in warning


def test_the_page_says_it_too(where, tmp_path, capsys):
    assert run(["history", "explain", GROUP, *where, "--report", str(tmp_path / "explain.html")]) == 0
    assert run(["history", "churn", *where, "--report", str(tmp_path / "churn.html")]) == 0
    capsys.readouterr()
    for page in ("explain", "churn"):
        assert "compaction has removed records" in (tmp_path / f"{page}.html").read_text()


def test_the_commands_that_are_suggested_for_a_live_cluster_can_be_run(log, capsys):
    """They fail because no broker answers, and not because of how they are written."""
    steps = explain_group(opened(compacted(log), _LIVE), GROUP).next_steps
    assert steps
    for step in steps:
        assert run([*step.command.split()[1:], "--timeout", "1s"]) == 5, step.command
    capsys.readouterr()
