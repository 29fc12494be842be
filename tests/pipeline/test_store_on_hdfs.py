"""The same store in a real HDFS, over HTTP: a file appears there when it is begun, so small ones are renamed into
place."""

import itertools
import random
import threading

import pytest

from kgm.history.store.query import RowFilter
from kgm.history.store.tables import open_store
from kgm.model.errors import MissingFileError
from kgm.pipeline import build, capture
from kgm.pipeline.store import bronze
from tests.hdfs import MiniHdfs
from tests.pipeline.test_store import (  # noqa: F401  (collected here, with the fixture `store` of this module)
    EVERY_STEP,
    _without_spark,
    captured,
    killed_at_steps,
    test_a_store_grows,
)
from tests.selection import first_seed, is_long

if is_long():
    from tests.pipeline.test_store import (  # noqa: F401
        test_a_reader_sees_one_whole_build_while_others_are_written,
        test_one_capture_and_one_build_at_a_time,
        test_two_writers_that_do_not_see_each_other,
    )

#: The reader leaves the server some time for what it is there for.
_READ_EVERY_S = 0.2
pytestmark = [
    pytest.mark.shows("store HDFS"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(3000 if EVERY_STEP else 600),
]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    cluster = MiniHdfs(tmp_path_factory.mktemp("hdfs"))
    yield cluster
    cluster.stop()


@pytest.fixture
def store(hdfs):
    return hdfs.directory()


@pytest.mark.long
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_killed_at_every_request_while_others_read(store, log, format):  # noqa: A002
    """Before and after requests of a capture and a build that change something, a rename into place among them,
    one after the other on the same store. A reader sees whole builds only."""
    chance = random.Random(first_seed())
    # Each takes seconds: some of them in a run, others with another seed.
    steps = itertools.chain([chance.randrange(1, 12)], itertools.count(chance.randrange(12, 24), 12))
    wholes, seen, over = {200}, [], threading.Event()

    def read():
        while not over.wait(_READ_EVERY_S):
            try:
                tables = open_store(store)
                seen.append(len(tables.table("silver_commit", RowFilter())))
            except MissingFileError:  # before the first build
                assert not seen

    reader = threading.Thread(target=read)
    reader.start()
    try:
        died = killed_at_steps(
            store, log, steps, format=format, environment={}, requests=True, whole_builds=wholes
        )  # fmt: skip
    finally:
        over.set()
        reader.join()
    assert died > 1
    assert len(set(seen)) > 2
    assert set(seen) <= wholes
    assert seen == sorted(seen), "no reader goes back to an older build"


@pytest.mark.long
def test_files_that_were_not_renamed_are_swept_when_they_are_old(store, log, monkeypatch):
    """One of each kind, as a writer leaves it that dies before the rename."""
    source, grow = log
    build(store, source=source)
    files = {path.parent: path for path in store.rglob("*.json")}
    assert {path.name for path in files} == {store.name, "builds", "_kgm_log"}, "claims are given back"
    left = [
        store / "claims" / "capture-dead.json.new",
        *(path.with_name(f"{path.name}.new") for path in files.values()),
    ]
    for path in left:
        path.write_bytes(b"{}")
    grow(5)
    assert capture(store, source, once=True).records == 10
    assert all(path.exists() for path in left), "somebody may be about to rename them"
    monkeypatch.setattr(bronze, "ORPHAN_S", -5.0)
    capture(store, source, once=True)
    assert not list(store.rglob("*.new"))
    assert captured(store) == 210
    assert build(store).records == 10
