"""A store of raw records and its tables: the same from one process, from Spark at once, and from Spark bit by bit."""

import random
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kgm.history.columns import decode
from kgm.history.derive import DERIVED, derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.schema import RAW, TABLES
from kgm.history.sink_files import counted_files
from kgm.history.store import Asked, open_store
from kgm.model.errors import NotFoundError, UsageError
from kgm.pipeline import Format, Source, build, capture, read

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def raw(plain_log):
    return raw_table(folders(plain_log), Reading())


@pytest.fixture(scope="module")
def expected(raw):
    """What one process makes of it."""
    return rows_of({**derive(raw).tables, "bronze_bad": decode(raw).bad})


def rows_of(tables):
    return {name: sorted(map(repr, table.to_pylist())) for name, table in tables.items()}


def stored(path):
    store = open_store(path)
    return rows_of({name: store.table(name, Asked()) for name in (*DERIVED, "bronze_bad")})


def assert_same(found, expected):
    for name in expected:
        assert found[name] == expected[name], name


def dumped(raw, path):
    """A dump as people have it, by Spark's Kafka source."""
    path.mkdir(parents=True, exist_ok=True)
    table = raw.set_column(
        raw.schema.get_field_index("timestamp"), "timestamp", raw.column("timestamp").cast(pa.timestamp("ms", "UTC"))
    )
    topic = pa.array(["__consumer_offsets"] * len(raw))
    pq.write_table(table.append_column("topic", topic), path / f"part-{len(list(path.iterdir()))}.parquet")
    return Source.parse(f"parquet:{path}")


def raw_rows(path):
    tables = [pq.read_table(file, columns=RAW.names) for file in counted_files(path / "bronze" / "raw")]
    whole = pa.concat_tables(tables).cast(RAW)
    return whole.sort_by([("partition", "ascending"), ("offset", "ascending")])


def test_from_segments_and_again(spark, options, plain_log, raw, expected, tmp_path):
    source = Source.parse(f"segments:{plain_log}")
    first = build(tmp_path, source=source, options=options)
    assert first.partitions == (0, 1, 2, 3)
    assert (first.number, first.records, first.rebuilt) == (1, 8396, ())
    assert raw_rows(tmp_path) == raw
    assert_same(stored(tmp_path), expected)
    assert first.rows == {name: len(rows) for name, rows in expected.items()}
    again = build(tmp_path, source=source, options=options)
    assert (again.number, again.records, again.partitions) == (1, 0, ())
    assert again.rows == first.rows
    scratch = build(tmp_path, options=options, from_scratch=True)
    assert (scratch.number, scratch.records, scratch.rebuilt) == (2, 8396, (0, 1, 2, 3))
    assert_same(stored(tmp_path), expected)
    # Who knows nothing of kgm sees the same, whichever way in is taken.
    found = read(tmp_path, "silver_snapshot", spark)
    assert found.schema.names == TABLES["silver_snapshot"].names
    assert found.count() == spark.read.parquet(str(tmp_path / "silver" / "snapshot")).count() == first.rows["silver_snapshot"]


def test_bit_by_bit_with_overlaps_and_late_records(spark, options, raw, expected, tmp_path):
    """Cut anywhere, with records that were there already, and a piece of the middle that comes last of all."""
    chance = random.Random(spark.sparkContext.startTime)
    print("startTime", spark.sparkContext.startTime)
    cuts = sorted(chance.sample(range(1, len(raw)), 2))
    shuffled = raw.take(pa.array(chance.sample(range(len(raw)), len(raw))))
    order = pc.sort_indices(raw.column("timestamp"), sort_keys=None) if False else None
    del shuffled, order
    by_time = raw.take(pc.sort_indices(raw, sort_keys=[("timestamp", "ascending"), ("offset", "ascending")]))
    late = by_time.slice(cuts[0] // 2, 40)
    without = pa.concat_tables([by_time.slice(0, cuts[0] // 2), by_time.slice(cuts[0] // 2 + 40, cuts[0] - cuts[0] // 2 - 40)]) if cuts[0] > 100 else by_time.slice(0, cuts[0])
    pieces = [without, by_time.slice(max(0, cuts[0] - 50), cuts[1] - cuts[0] + 50), by_time.slice(cuts[1]), late]
    store = tmp_path / "store"
    taken = 0
    for number, piece in enumerate(pieces):
        done = build(store, source=dumped(piece, tmp_path / f"dump-{number}"), options=options)
        assert done.captured.records + done.captured.repeated == len(piece)
        taken += done.captured.records
    assert taken == len(raw)
    assert raw_rows(store) == raw
    assert_same(stored(store), expected)


def test_a_stream_of_a_growing_copy(spark, options, plain_log, raw, expected, tmp_path):
    """The folders as they were at three moments, cut at any byte."""
    chance = random.Random(5)
    copy, store = tmp_path / "copy", tmp_path / "store"
    for moment in range(3):
        for folder in folders(plain_log):
            (copy / folder.path.name).mkdir(parents=True, exist_ok=True)
            for path in folder.segments:
                data = path.read_bytes()
                size = len(data) if moment == 2 else chance.randrange(len(data) * moment // 2, len(data) * (moment + 1) // 2)
                (copy / folder.path.name / path.name).write_bytes(data[:size])
        capture(store, Source.parse(f"segments:{copy}"), options=options, once=True)
        build(store, options=options)
    assert raw_rows(store) == raw
    assert_same(stored(store), expected)


def test_in_delta(spark, options, raw, expected, tmp_path):
    store = tmp_path / "store"
    half = len(raw) // 2
    by_time = raw.take(pc.sort_indices(raw, sort_keys=[("timestamp", "ascending"), ("offset", "ascending")]))
    for number, piece in enumerate([by_time.slice(0, half), by_time.slice(half - 100)]):
        done = build(store, source=dumped(piece, tmp_path / f"dump-{number}"), options=options, format=Format.DELTA)
        assert done.number == number + 1
    assert raw_rows(store) == raw
    assert_same(stored(store), expected)
    assert read(store, "gold_rebalance", spark).count() == len(expected["gold_rebalance"])
    from_delta = build(tmp_path / "other", source=Source.parse(f"delta:{store / 'bronze' / 'raw'}"), options=options)
    assert from_delta.captured.records == len(raw)
    with pytest.raises(UsageError, match="is written in delta"):
        build(store, options=options, format=Format.PARQUET)


def test_what_is_not_there(spark, options, tmp_path):
    with pytest.raises(NotFoundError, match="holds no history"):
        build(tmp_path / "nothing", options=options)
    with pytest.raises(NotFoundError):
        build(tmp_path / "a", source=Source.parse(f"parquet:{tmp_path / 'nothing'}"), options=options)
    with pytest.raises(UsageError, match="does not go on"):
        capture(tmp_path / "b", Source.parse(f"parquet:{tmp_path}"), options=options)
    pq.write_table(pa.table({"partition": [1]}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="no column offset, key, value"):
        build(tmp_path / "c", source=Source.parse(f"parquet:{tmp_path / 'x.parquet'}"), options=options)
    shutil.rmtree(tmp_path / "c")
    with pytest.raises(NotFoundError, match="has no table"):
        capture(tmp_path / "d", Source.parse(f"segments:{tmp_path / 'nowhere'}"), options=options, once=True)
