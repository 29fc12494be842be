"""Stores in a directory and on a server that speaks S3: captured, built, read, killed at every step, written by two.

Spark is not needed to see whether a store is right: a task here is a call in this process, of what was pickled and
unpickled. `test_building` and `test_store_on_spark` have the same on Spark."""

import itertools
import json
import random
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kgm.history.causes.session_timeouts import no_session
from kgm.history.decode.record_tables import decode
from kgm.history.derive import DERIVED, derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.commit_log import committed
from kgm.history.store.manifest import newest_build
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import open_store
from kgm.model.errors import MissingFileError, RefusedError, UsageError
from kgm.operations.history.raw_records import verify_source
from kgm.operations.history.source import HistorySource
from kgm.pipeline import Source, StoreFormat, build, capture
from kgm.pipeline.store import bronze, claims, layout
from tests.pipeline.killed_build import KilledBuild, without_spark
from tests.s3 import keys
from tests.selection import first_seed, is_long

#: `--long` kills at every step; without it at some of them.
EVERY_STEP = is_long()
pytestmark = [
    pytest.mark.shows("store directory", "store S3"),
    pytest.mark.timeout(3000 if EVERY_STEP else 600),
    pytest.mark.slow,
]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch):
    without_spark(monkeypatch)


#: For tests that say the same of every store: on S3 in long runs only.
on_each = pytest.mark.parametrize("store", ["directory", pytest.param("s3", marks=pytest.mark.long)], indirect=True)


@pytest.fixture(params=["directory", "s3"])
def store(request, tmp_path):
    return tmp_path / "history" if request.param == "directory" else request.getfixturevalue("s3").bucket() / "history"


@pytest.fixture
def environment(store, request):
    """What a process needs to reach the store."""
    return {} if isinstance(store, Path) else request.getfixturevalue("s3").environment


def rows_of(tables):
    return {name: sorted(map(repr, table.to_pylist())) for name, table in tables.items()}


def expected(source):
    raw = raw_table(folders(source.path), Reading())
    return rows_of({**derive(raw, session_of_group=no_session).tables, "bronze_bad": decode(raw).bad})


def stored(path):
    tables = open_store(path)
    return rows_of({name: tables.table(name, RowFilter()) for name in (*DERIVED, "bronze_bad")})


def count(path):
    return len(open_store(path).table("silver_commit", RowFilter()))


def captured(path):
    """How many records the store has, as any question reads them, each once."""
    verdict = verify_source(HistorySource(path=path))
    return sum(partition.records for partition in verdict.partitions)


def by_every_file(directory):
    """(how many rows a reader sees that takes every file, how many records of Kafka's they are of)"""
    rows = ds.dataset(str(directory), format="parquet").to_table(columns=["partition", "offset"]).to_pylist()
    return len(rows), len({(row["partition"], row["offset"]) for row in rows})


def read_spans(path):
    return [file.spans for commit in committed(path / "bronze" / "raw").values() for file in commit.files.values()]


def test_a_store_grows(store, log):
    source, grow = log
    first = build(store, source=source)
    assert (first.number, first.records, first.partitions) == (1, 200, (0, 1))
    assert stored(store) == expected(source)
    again = build(store, source=source)
    assert (again.number, again.records, again.rows) == (1, 0, first.rows)
    grow(50)
    more = build(store, source=source)
    assert (more.number, more.records, more.captured.records) == (2, 100, 100)
    assert stored(store) == expected(source)
    assert more.rows == {name: len(rows) for name, rows in expected(source).items()}
    assert build(store, from_scratch=True).rebuilt == (0, 1)
    assert stored(store) == expected(source)
    assert captured(store) == 300
    assert not [key for key in keys(store) if key.startswith("claims/")]


@on_each
def test_batches_are_as_large_as_asked_for_and_none_is_read_twice(store, log):
    source, grow = log
    done = capture(store, source, once=True, most_records=40)
    assert (done.records, done.repeated, done.batches) == (200, 0, 5)
    assert capture(store, source, once=True).records == 0
    grow(5)
    assert capture(store, source, once=True).records == 10
    assert captured(store) == 210


@on_each
def test_a_build_says_what_was_captured_before_records_went_missing(store, log):
    source, grow = log
    capture(store, source, once=True)
    grow(50)
    path = source.path / "__consumer_offsets-0" / f"{0:020}.log"
    data, at = path.read_bytes(), 0
    while int.from_bytes(data[at : at + 8]) < 100:
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    removed = 12 + int.from_bytes(data[at + 8 : at + 12])
    path.write_bytes(data[:at] + data[at + removed :])  # the batch of offsets 100 to 104
    build(store, source=source)
    assert open_store(store).origin.unconfirmed_until == {0: 100}
    grow(50)
    build(store, source=source)
    assert open_store(store).origin.unconfirmed_until == {0: 100}


@on_each
def test_sources_may_overlap(store, log, tmp_path):
    source, grow = log
    capture(store, source, once=True)
    grow(5)
    copy = tmp_path / "copy"
    copy.symlink_to(source.path)
    done = capture(store, Source.parse(f"segments:{copy}"), once=True)
    # A directory is known by where it is.
    assert (done.records, done.repeated) == (10, 0)
    copy.unlink()
    source.path.rename(copy)
    done = capture(store, Source.parse(f"segments:{copy}"), once=True)
    assert (done.records, done.repeated) == (0, 210)
    assert captured(store) == 210


@on_each
def test_another_log_in_the_place_of_a_source_is_refused(store, log, tmp_path):
    source, _ = log
    capture(store, source, once=True)
    segment = tmp_path / "log" / "__consumer_offsets-1" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:2000])
    with pytest.raises(RefusedError, match="ends before what was captured"):
        capture(store, source, once=True)


@on_each
def test_a_store_is_of_one_format_and_cluster(store, log):
    source, _ = log
    with pytest.raises(MissingFileError, match="is not a history store"):
        build(store)
    capture(store, source, once=True, cluster="one")
    with pytest.raises(UsageError, match="of cluster one, not of two"):
        capture(store, source, once=True, cluster="two")
    with pytest.raises(UsageError, match="has the format parquet"):
        build(store, format=StoreFormat.DELTA)


@on_each
def test_the_log_is_folded_and_says_the_same(store, log, monkeypatch):
    monkeypatch.setattr(bronze, "_FOLD", 3)
    source, grow = log
    for _ in range(9):
        grow(5)
        capture(store, source, once=True)
    names = sorted(key.rpartition("/")[2].partition("-")[0] for key in keys(store) if "_kgm_log" in key)
    assert names == ["2"]
    assert captured(store) == 200 + 9 * 10
    assert build(store).records == 290
    assert stored(store) == expected(source)


@on_each
def test_old_builds_are_swept_and_what_is_read_is_not(store, log, monkeypatch):
    source, grow = log
    build(store, source=source)
    for _ in range(3):
        grow(5)
        build(store, source=source)
    assert len(list((store / "builds").glob("*.json"))) == 4, "replaced a moment ago: somebody may read them"
    monkeypatch.setattr(layout, "GRACE_S", 0)
    grow(5)
    build(store, source=source)
    left = sorted((store / "builds").glob("*.json"))
    assert [path.name[:6] for path in left] == ["000004", "000005"]
    named = {file for path in left for each in json.loads(path.read_bytes())["files"].values() for file in each}
    tables = ("tables/", "silver/", "gold/", "carry/")
    assert {key for key in keys(store) if key.startswith(tables)} == named
    if isinstance(store, Path):
        views = {path.name for path in (store / "views").iterdir()}
        assert views == {path.stem for path in left}
    assert stored(store) == expected(source)


def parts(path):
    return {file.name for file in (path / "bronze" / "raw").glob("part-*.parquet")}


@on_each
def test_what_a_killed_capture_left_is_swept_when_it_is_old(store, log, monkeypatch):
    source, grow = log
    capture(store, source, once=True)
    whole = parts(store)
    grow(5)

    def died(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bronze.Bronze, "add", died)
        with pytest.raises(KeyboardInterrupt):
            capture(store, source, once=True)
    left = parts(store) - whole
    assert left
    assert capture(store, source, once=True).records == 10
    assert parts(store) > whole | left, "another one may be about to commit them"
    monkeypatch.setattr(bronze, "ORPHAN_S", -5.0)
    capture(store, source, once=True)
    assert not parts(store) & left
    assert whole < parts(store)
    assert captured(store) == 210
    assert build(store).records == 210


@on_each
def test_a_capture_whose_files_were_swept_does_not_count(store, log, monkeypatch):
    """It stood still in front of its commit, for longer than any claim lasts."""
    source, grow = log
    capture(store, source, once=True)
    grow(5)
    add = bronze.Bronze.add

    def stood_still(self, commit):
        monkeypatch.setattr(bronze.Bronze, "add", add)
        self.began_s -= bronze.ORPHAN_S
        for name in commit.files:
            (self.store.raw / name).unlink()
        add(self, commit)

    monkeypatch.setattr(bronze.Bronze, "add", stood_still)
    with pytest.raises(RefusedError, match="were swept from"):
        capture(store, source, once=True)
    assert captured(store) == 200
    assert capture(store, source, once=True).records == 10
    assert captured(store) == 210


def test_one_capture_and_one_build_at_a_time(store, log, monkeypatch):
    source, _ = log
    build(store, source=source)
    with claims.claimed(store, "capture", "somebody"):
        monkeypatch.setattr(claims, "_has_died", lambda *_: False)
        with pytest.raises(RefusedError, match=f"another capture is running on {store}"):
            capture(store, source, once=True)
        build(store)
    # One that was killed does not renew its claim.
    dead = claims.Claim(store, "capture", "dead")
    dead.put()
    (listed,) = dead.path.parent.glob("capture-dead.json")
    assert abs(listed.stat().st_mtime_ns / 1e9 - time.time()) < 600, "ages are what the store says of them"
    with pytest.raises(RefusedError):
        capture(store, source, once=True)
    monkeypatch.setattr(claims, "TTL_S", -1.0)
    capture(store, source, once=True)
    with pytest.raises(RefusedError, match="has lost its claim"):
        dead.check()


def test_a_claim_that_is_put_again_is_not_lost_meanwhile(tmp_path, monkeypatch):
    """In HDFS it is deleted, and then renamed into place."""
    claim = claims.Claim(tmp_path, "build", "somebody")
    claim.put()
    checking = threading.Thread(target=lambda: checked.append(claim.check()))
    checked = []

    def put(path, data):
        path.unlink()
        checking.start()
        checking.join(0.2)  # it has to wait
        path.write_bytes(data)
        claim._stop.set()

    monkeypatch.setattr(claims, "put", put)
    monkeypatch.setattr(claims, "_RENEW_S", 0)
    claim.renew()
    checking.join()
    assert checked == [None]


@pytest.mark.long
def test_two_writers_that_do_not_see_each_other(store, log, monkeypatch):
    """As when the first slept through the end of its claim: whatever they do in whatever order, a reader sees every
    record once, and one whole build."""
    source, grow = log
    build(store, source=source)
    monkeypatch.setattr(claims, "_refuse_others", lambda _: None)
    monkeypatch.setattr(layout, "GRACE_S", 0)
    add, finish = bronze.Bronze.add, layout.Store.finish

    def overtaken(method, other):
        ran = threading.Event()

        def run(self, given):
            if not ran.is_set():
                ran.set()
                other()
            method(self, given)

        return run

    for number in range(2):
        grow(5)
        with monkeypatch.context() as patch:
            patch.setattr(bronze.Bronze, "add", overtaken(add, lambda: capture(store, source, once=True)))
            capture(store, source, once=True)
        assert captured(store) == 200 + 10 * (number + 1)
        held = sum(each.records for spans in read_spans(store) for each in spans.values())
        assert held == 200 + 20 * (number + 1), "both have taken what is new"
    with monkeypatch.context() as patch:
        patch.setattr(layout.Store, "finish", overtaken(finish, lambda: build(store)))
        try:
            build(store)
            overtook = True
        except RefusedError as error:
            assert "was finished meanwhile" in str(error)  # noqa: PT017
            overtook = False
    assert newest_build(store)[1].number == 2
    assert stored(store) == expected(source), overtook
    grow(5)

    def far_behind():
        for _ in range(3):
            build(store, source=source)
            grow(5)

    with monkeypatch.context() as patch:
        patch.setattr(layout.Store, "finish", overtaken(finish, far_behind))
        with pytest.raises(RefusedError, match="was finished meanwhile"):
            build(store, source=source)
    assert newest_build(store)[1].number == 5
    build(store, source=source)
    assert stored(store) == expected(source)


def killed_at_steps(store, log, steps, *, format, environment, requests=False, whole_builds=None):  # noqa: A002
    """Build a store that grows, killed at these steps, one after the other, until a build gets to its end; returns how
    often it died. requests: whether steps are requests that change something. whole_builds: noted in it are the sizes
    that a build may have, before it begins."""
    source, grow = log
    build(store, source=source, format=StoreFormat(format))
    whole, died = expected(source), 0
    grace = 0 if whole_builds is None else 600
    for step in steps:
        grow(5)
        now = expected(source)
        if whole_builds is not None:
            whole_builds.add(len(now["silver_commit"]))
        killed = KilledBuild(
            store=str(store), source=str(source), step=step, format=format, requests=requests, grace_s=grace,
            environment=environment,
        )  # fmt: skip
        ended = killed.run()
        assert stored(store) in (whole, now), step
        if isinstance(store, Path):
            # As docs/spark.md promises those that know nothing of kgm.
            assert captured(store) <= by_every_file(store / "bronze" / "raw")[1] <= len(now["silver_commit"]), step
            if format == "parquet":
                rows, records = by_every_file(store / "silver" / "commit")
                assert rows == records in (len(whole["silver_commit"]), len(now["silver_commit"])), step
        if not ended:
            break
        died += 1
        build(store, source=source)  # and it goes on where it was, as if nothing had been
        assert stored(store) == now, step
        assert captured(store) == len(now["silver_commit"]), step
        whole = now
    print(died, "times, the last but one at step", step)
    assert stored(store) == now
    return died


@pytest.mark.parametrize("format", ["parquet", pytest.param("delta", marks=pytest.mark.long)])
def test_killed_at_every_step(store, environment, log, format):  # noqa: A002
    """Before and after each write and each deletion of a capture and a build, one after the other on the same store."""
    steps = itertools.count(1)
    if not EVERY_STEP:
        steps = itertools.chain([1], itertools.count(random.Random(first_seed()).randrange(2, 18), 29))
    assert killed_at_steps(store, log, steps, format=format, environment=environment) > 1


def test_a_reader_sees_one_whole_build_while_others_are_written(store, log, monkeypatch):
    source, grow = log
    build(store, source=source)
    wholes, seen, over = {200}, [], threading.Event()

    def read():
        while not over.is_set():
            tables = open_store(store)
            seen.append({len(tables.table(name, RowFilter())) for name in ("silver_commit",)})

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(4):
            grow(25)
            wholes.add(max(wholes) + 50)
            build(store, source=source)
    finally:
        over.set()
        reader.join()
    assert len(seen) > 3
    assert {each for counts in seen for each in counts} <= wholes


def test_a_delta_table_is_read_by_others(s3, log, monkeypatch):
    from deltalake import DeltaTable

    source, grow = log
    store = s3.bucket() / "history"
    options = {
        "AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "kgm-tests", "AWS_SECRET_ACCESS_KEY": "none",
    }  # fmt: skip

    def by_others(name):
        layer, _, rest = name.partition("_")
        table = DeltaTable(str(store / layer / rest), storage_options=options)
        return sorted(map(repr, pa.table(table.to_pyarrow_table()).to_pylist()))

    for _ in range(2):
        build(store, source=source, format=StoreFormat.DELTA)
        assert len(by_others("bronze_raw")) == len(expected(source)["silver_commit"])
        assert by_others("silver_commit") == expected(source)["silver_commit"]
        grow(5)
