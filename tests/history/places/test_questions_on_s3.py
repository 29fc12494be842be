"""The questions of `kgm history` are answered from an object store as from a directory, without Spark."""

import json

import pytest

from kgm.history.derive import derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.schema import TABLES
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import open_store
from kgm.model.errors import MissingFileError
from tests.cli.runner import kgm
from tests.history.store.stores import write_store
from tests.records.real_logs import partitions, unpack
from tests.s3 import CREDENTIALS, upload

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A broker's folders: two small partitions."""
    folder = tmp_path_factory.mktemp("log")
    for partition, path in partitions("plain").items():
        if partition in (0, 1):
            unpack("plain", partition, folder / path.name)
    return folder


@pytest.fixture(scope="module")
def on_s3(s3, log, tmp_path_factory):
    """Segments, a dump and a built store of the same records: (folder, bucket)."""
    folder, bucket = tmp_path_factory.mktemp("places"), s3.bucket()
    raw = raw_table(folders(log), Reading())
    tables = {name: table for name, table in derive(raw).tables.items() if name in TABLES}
    write_store(folder / "store", tables, partitions=(0, 1))
    (folder / "segments").symlink_to(log)
    import pyarrow.parquet as pq

    (folder / "dump").mkdir()
    pq.write_table(raw, folder / "dump" / "part.parquet")
    for name in ("store", "dump"):
        upload(folder / name, bucket / name)
    upload(log, bucket / "segments")
    return folder, bucket


def answers(place, s3, *words):
    run = kgm("history", *words, "-o", "json", env=s3.environment)
    assert run.code == 0, run.err
    return json.dumps(json.loads(run.out)["data"]).replace(str(place), "PLACE"), run.err.replace(str(place), "PLACE")


QUESTIONS = [
    pytest.param(("verify", "--source", "segments:{}/segments"), marks=pytest.mark.long),
    pytest.param(("rebalances", "--source", "parquet:{}/dump"), marks=pytest.mark.long),
    ("timeouts", "--store", "{}/store"),
]


@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: " ".join((words[0], words[2].replace("{}/", ""))))
def test_the_answer_is_the_same(s3, on_s3, words):
    there, here = (answers(place, s3, *(word.format(place) for word in words)) for place in reversed(on_s3))
    assert there == here


def test_every_table_is_read_in_one_process_and_one_group_without_the_rest(on_s3):
    folder, bucket = on_s3
    here, there = open_store(folder / "store"), open_store(bucket / "store")
    for name in TABLES:
        if name[:4] in ("silv", "gold") and len(here.table(name, RowFilter())):  # a bucket has no empty folder
            assert there.table(name, RowFilter()).equals(here.table(name, RowFilter())), name
    group = here.table("gold_rebalance", RowFilter()).column("group_id")[0].as_py()
    wanted = RowFilter(group_ids=(group,))
    assert there.table("gold_rebalance", wanted).equals(here.table("gold_rebalance", wanted))
    with pytest.raises(MissingFileError, match="has no table"):
        there.table("bronze_raw", RowFilter())


@pytest.mark.parametrize(
    ("store", "environment", "code", "says"),
    [
        ("s3://kgm-no-such-bucket/store", {}, 2, "does not exist"),
        ("{}/nothing", {}, 2, "holds no built history"),
        ("{}/store", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, 5, "NETWORK_CONNECTION"),
        ("ftp://host/store", {}, 2, "scheme ftp:// are not supported"),
        ("s3://me:hidden@bucket/store", {}, 2, "must not have credentials"),
        ("hdfs://127.0.0.1:9/store", {}, 2, "libhdfs"),
    ],
)
def test_what_cannot_be_read_says_why(s3, on_s3, store, environment, code, says):
    run = kgm("history", "churn", "--store", store.format(on_s3[1]), env=s3.environment | environment)
    assert run.code == code, run.err
    assert says in run.err
    assert "hidden" not in run.err
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in run.err
    assert "Traceback" not in run.err
    assert "internal error" not in run.err
