"""Delta's log as kgm writes it, by the reader that comes without Spark. That Delta reads it: `test_building`."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgm.history.store.sink_files import counted_files, delta_adds
from kgm.pipeline.store import delta
from kgm.pipeline.store.delta import LOG, publish

pytestmark = pytest.mark.shows("store Delta")

SCHEMA = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}'


def written(path):
    pq.write_table(pa.table({"a": [1]}), path)
    return path


def test_each_commit_says_what_came_and_went(tmp_path):
    one, two = written(tmp_path / "one.parquet"), written(tmp_path / "two.parquet")
    assert publish(tmp_path, [], SCHEMA, now_ms=1)
    assert counted_files(tmp_path) == []
    assert publish(tmp_path, [one], SCHEMA, now_ms=2)
    assert not publish(tmp_path, [one], SCHEMA, now_ms=3)
    assert publish(tmp_path, [two], SCHEMA, now_ms=4)
    assert counted_files(tmp_path) == [two]
    assert len(list((tmp_path / LOG).glob("*.json"))) == 3


def test_a_checkpoint_asks_nothing_of_files_that_the_log_has(tmp_path, monkeypatch):
    files = [written(tmp_path / f"{number:03}.parquet") for number in range(51)]
    asked = []
    add = delta._add
    monkeypatch.setattr(delta, "_add", lambda name, path: asked.append(name) or add(name, path))
    for count in range(1, 52):
        publish(tmp_path, files[:count], SCHEMA, now_ms=count)
    assert (tmp_path / LOG / f"{50:020}.checkpoint.parquet").exists()
    assert asked == [path.name for path in files]


@pytest.mark.long
def test_a_checkpoint_spares_readers_the_past(tmp_path):
    files = [written(tmp_path / f"{number:03}.parquet") for number in range(120)]
    for count in range(1, 121):
        publish(tmp_path, files[max(0, count - 3) : count], SCHEMA, now_ms=count)
    assert counted_files(tmp_path) == files[117:]
    for name, action in delta_adds(tmp_path).items():
        assert (action["size"], json.loads(action["stats"])) == ((tmp_path / name).stat().st_size, {"numRecords": 1})
    assert (tmp_path / LOG / f"{100:020}.checkpoint.parquet").exists()
    held = pq.read_table(tmp_path / LOG / f"{100:020}.checkpoint.parquet").column("add").drop_null().to_pylist()
    sizes = {path.name: path.stat().st_size for path in files}
    assert {add["path"]: add["size"] for add in held} == {
        name: sizes[name] for name in ("098.parquet", "099.parquet", "100.parquet")
    }
    for number in range(100):
        (tmp_path / LOG / f"{number:020}.json").unlink()
    assert counted_files(tmp_path) == files[117:]
