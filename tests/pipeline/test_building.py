"""A store of raw records and its tables: the same from one process, from Spark at once, and from Spark bit by bit."""

import random
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kgm.history.decode.record_tables import decode
from kgm.history.derive import DERIVED, derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.schema import RAW, TABLES
from kgm.history.store.query import RowFilter
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import open_store
from kgm.model.errors import MissingFileError, UsageError
from kgm.pipeline import Source, StoreFormat, build, capture, read
from tests.selection import sized

PARTITIONS, RECORDS = (0, 1), 3106
pytestmark = [pytest.mark.shows("Spark", "store directory"), pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def small_log(plain_log, tmp_path_factory):
    """Two of its partitions, the small ones."""
    folder = tmp_path_factory.mktemp("small")
    for number in PARTITIONS:
        shutil.copytree(plain_log / f"__consumer_offsets-{number}", folder / f"__consumer_offsets-{number}")
    return folder


@pytest.fixture(scope="module")
def raw(small_log):
    return raw_table(folders(small_log), Reading())


@pytest.fixture(scope="module")
def expected(raw):
    """What one process makes of it."""
    return rows_of({**derive(raw).tables, "bronze_bad": decode(raw).bad})


def rows_of(tables):
    return {name: sorted(map(repr, table.to_pylist())) for name, table in tables.items()}


def stored(path):
    store = open_store(path)
    return rows_of({name: store.table(name, RowFilter()) for name in (*DERIVED, "bronze_bad")})


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


def by_time(raw):
    return raw.take(pc.sort_indices(raw, sort_keys=[("timestamp", "ascending"), ("offset", "ascending")]))


def raw_rows(path):
    tables = [pq.read_table(file, columns=RAW.names) for file in counted_files(path / "bronze" / "raw")]
    whole = pa.concat_tables(tables).cast(RAW)
    return whole.sort_by([("partition", "ascending"), ("offset", "ascending")])


def test_from_segments_and_again(spark, options, small_log, raw, expected, tmp_path):
    source = Source.parse(f"segments:{small_log}")
    first = build(tmp_path, source=source, options=options)
    assert first.partitions == PARTITIONS
    assert (first.number, first.records, first.rebuilt) == (1, RECORDS, ())
    assert raw_rows(tmp_path) == raw
    assert_same(stored(tmp_path), expected)
    assert first.rows == {name: len(rows) for name, rows in expected.items()}
    again = build(tmp_path, source=source, options=options)
    assert (again.number, again.records, again.partitions) == (1, 0, ())
    assert again.rows == first.rows
    scratch = build(tmp_path, options=options, from_scratch=True)
    assert (scratch.number, scratch.records, scratch.rebuilt) == (2, RECORDS, PARTITIONS)
    assert_same(stored(tmp_path), expected)
    # Who knows nothing of kgm sees the same, whichever way in is taken.
    found = read(tmp_path, "silver_snapshot", spark)
    assert found.schema.names == TABLES["silver_snapshot"].names
    assert (
        found.count()
        == spark.read.parquet(str(tmp_path / "silver" / "snapshot")).count()
        == first.rows["silver_snapshot"]
    )


@pytest.mark.long
def test_bit_by_bit_with_overlaps_and_late_records(spark, options, raw, expected, tmp_path):
    """Cut anywhere, with records that were there already, and a piece of the middle that comes last of all."""
    seed = int(spark.sparkContext.startTime)
    print("seed:", seed)
    chance = random.Random(seed)
    first, second = sorted(chance.sample(range(100, len(raw)), 2))
    late = chance.randrange(first - 50)
    every = by_time(raw)
    pieces = [
        pa.concat_tables([every.slice(0, late), every.slice(late + 50, first - late - 50)]),
        every.slice(first - 20, second - first + 20), every.slice(second), every.slice(late, 50),
    ]  # fmt: skip
    store = tmp_path / "store"
    taken = 0
    for number, piece in enumerate(pieces):
        done = build(store, source=dumped(piece, tmp_path / f"dump-{number}"), options=options)
        assert done.captured.records + done.captured.repeated == len(piece)
        taken += done.captured.records
    assert taken == len(raw)
    assert raw_rows(store) == raw
    assert_same(stored(store), expected)


@pytest.mark.long
def test_a_stream_of_a_growing_copy(spark, options, small_log, raw, expected, tmp_path):
    """The folders as they were at three moments, cut at any byte."""
    chance = random.Random(5)
    copy, store = tmp_path / "copy", tmp_path / "store"
    for moment in range(3):
        for folder in folders(small_log):
            (copy / folder.path.name).mkdir(parents=True, exist_ok=True)
            for path in folder.segments:
                data = path.read_bytes()
                size = (
                    len(data)
                    if moment == 2
                    else chance.randrange(len(data) * moment // 2, len(data) * (moment + 1) // 2)
                )
                (copy / folder.path.name / path.name).write_bytes(data[:size])
        capture(store, Source.parse(f"segments:{copy}"), options=options, once=True)
        build(store, options=options)
    assert raw_rows(store) == raw
    assert_same(stored(store), expected)


def test_in_delta(spark, options, raw, expected, tmp_path):
    store = tmp_path / "store"
    half = len(raw) // 2
    every = by_time(raw)
    pieces = sized([every], [every.slice(0, half), every.slice(half - 100)])
    for number, piece in enumerate(pieces):
        done = build(
            store, source=dumped(piece, tmp_path / f"dump-{number}"), options=options, format=StoreFormat.DELTA
        )
        assert done.number == number + 1
    assert raw_rows(store) == raw
    assert_same(stored(store), expected)
    # To Delta itself it is a table, too, with its past.
    tables = [("gold_rebalance", None), ("silver_commit", None), ("silver_commit", 0)]
    for name, version in tables[: len(pieces) + 1]:
        path = str(store.joinpath(*name.split("_", 1)))
        reader = spark.read.format("delta")
        count = (reader if version is None else reader.option("versionAsOf", version)).load(path).count()
        assert (count == len(expected[name])) == (version is None), (name, version)
    assert read(store, "gold_rebalance", spark).count() == len(expected["gold_rebalance"])
    from_delta = build(tmp_path / "other", source=Source.parse(f"delta:{store / 'bronze' / 'raw'}"), options=options)
    assert from_delta.captured.records == len(raw)
    with pytest.raises(UsageError, match="has the format delta, not parquet"):
        build(store, options=options, format=StoreFormat.PARQUET)


def test_what_is_not_there(spark, options, tmp_path):
    with pytest.raises(MissingFileError, match="is not a history store"):
        build(tmp_path / "nothing", options=options)
    with pytest.raises(MissingFileError):
        build(tmp_path / "a", source=Source.parse(f"parquet:{tmp_path / 'nothing'}"), options=options)
    with pytest.raises(UsageError, match="is a dump and cannot be followed"):
        capture(tmp_path / "b", Source.parse(f"parquet:{tmp_path}"), options=options)
    pq.write_table(pa.table({"partition": [1]}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="no column offset, key, value"):
        build(tmp_path / "c", source=Source.parse(f"parquet:{tmp_path / 'x.parquet'}"), options=options)
    shutil.rmtree(tmp_path / "c")
    with pytest.raises(MissingFileError, match="does not exist"):
        capture(tmp_path / "d", Source.parse(f"segments:{tmp_path / 'nowhere'}"), options=options, once=True)
