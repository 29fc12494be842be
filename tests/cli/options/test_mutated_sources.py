"""Everything that kgm reads from files, with any of its bytes or of its structure changed, removed, repeated or cut: each
command ends with an error of its own, never with an internal one."""

from __future__ import annotations

import gzip
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.cli.main import run
from kgm.history.derive import derive
from kgm.history.schema import RAW
from tests import ROOT
from tests.cli.environment import forget_settings
from tests.cli.options.test_mutated_files import GROUP, mutated
from tests.history.store.stores import write_store
from tests.history.test_expansion import commits, groups, members, zipped

LOG = ROOT / "tests" / "data" / "offsets-log" / "plain" / "__consumer_offsets-0" / f"{0:020}.log.gz"
DELTA = {"add": {"path": "a.parquet", "size": 1, "stats": "{}", "modificationTime": 1, "dataChange": True}}
CASE = {"assignor": "sticky", "case": 1, "leader": "a", "topics": [{"name": "t", "partitions": 3, "racks": [["r"], [], []]}],
        "members": [{"member_id": "a", "topics": ["t"], "owned": {"t": [0]}, "generation": 1, "rack": "r"},
                    {"member_id": "b", "group_instance_id": "i", "topics": ["t"]}]}  # fmt: skip
PROPERTIES = b"""bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" \\\n  password="p";
ssl.truststore.certificates=-----BEGIN CERTIFICATE----- AAAA -----END CERTIFICATE-----\nclient.id=${env:HOME}x\\u0041
"""
TOML = b"""[profiles.a]\nbootstrap_servers = ["127.0.0.1:1"]\ntimeout = "1s"\n[doctor]\naccept = [{check="x", group="y"}]\n"""


def records():
    return [*commits(20), *groups(3), *members(2, 2)]


def dump(folder):
    keys, values = zip(*records(), strict=True)
    count = len(keys)
    columns = {"partition": pa.array([0] * count, pa.int32()), "offset": pa.array(range(count), pa.int64()),
               "timestamp": pa.array([1] * count, pa.int64()), "key": pa.array(keys), "value": pa.array(values)}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def segment(folder, name="00000000000000000000.log", data=None):
    path = folder / "__consumer_offsets-0" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(zipped(records()) if data is None else data)
    return path


def store(folder):
    """The rebalances of a built store, of the group `orders`."""
    raw = pa.Table.from_pylist([{"partition": 0, "offset": number, "timestamp": number, "leader_epoch": 0, "key": key, "value": value}
                                for number, (key, value) in enumerate(records())], schema=RAW)  # fmt: skip
    write_store(folder, derive(raw).tables, partitions=[0])
    (path,) = (folder / "gold" / "rebalance").iterdir()
    return path


def log_of(folder, name, text):
    dump(folder)
    path = folder / name
    path.parent.mkdir()
    path.write_text(text)
    return path


def written(folder, name, text):
    folder.mkdir(parents=True)
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else json.dumps(text).encode())
    return path


HISTORY = ["history", "rebalances", "--source"]
SETTINGS = ["config", "view", "--show-origin"]
PLAN = ["--restart-time", "5s", "--draws", "1", "--budget", "1ms"]
#: What is written into a folder, and the command that reads it. {} is the folder, {file} the file.
BYTES = {
    "parquet": (dump, [*HISTORY, "parquet:{}"]),
    "store": (store, ["history", "rebalances", "--store", "{}"]),
    "segments": (segment, [*HISTORY, "segments:{}"]),
    "gzipped segments": (
        lambda folder: segment(folder, LOG.name, gzip.compress(gzip.decompress(LOG.read_bytes())[:20_000])),
        ["history", "explain", "orders", "--source", "segments:{}"],
    ),
    "verify": (segment, ["history", "verify", "--source", "segments:{}"]),
    "decode": (segment, ["history", "decode", "--source", "segments:{}"]),
    "delta's log": (
        lambda folder: log_of(folder, f"_delta_log/{0:020}.json", json.dumps(DELTA)), [*HISTORY, "delta:{}"]
    ),
    "sink's log": (
        lambda folder: log_of(folder, "_spark_metadata/0", 'v1\n{"path": "a.parquet", "action": "add"}\n'),
        [*HISTORY, "parquet:{}"],
    ),
    "client.properties": (
        lambda folder: written(folder, "c.properties", PROPERTIES), [*SETTINGS, "--command-config", "{file}"]
    ),
    "config.toml": (lambda folder: written(folder / "kgm", "config.toml", TOML), SETTINGS),
    "cases": (lambda folder: written(folder, "c.json", CASE), ["assign", "--from-file", "{file}"]),
}  # fmt: skip
SNAPSHOT = lambda folder: written(folder, "s.json", GROUP)  # noqa: E731
#: The same, of JSON: (where it is, the document, the command).
STRUCTURES = {
    "delta's log": (BYTES["delta's log"][0], DELTA, [*HISTORY, "delta:{}"]),
    "checkpoint of delta": (
        lambda folder: log_of(folder, "_delta_log/_last_checkpoint", "{}"), {"version": 1, "size": 1}, [*HISTORY, "delta:{}"]
    ),
    "manifest": (
        lambda folder: written(folder, "kgm-history.json", {}),
        {"number": 1, "format": "parquet", "cluster": None, "schema_version": 1, "rows": {"rebalances": 1},
         "built_up_to": {"0": 1}, "records": {"0": 1}, "files": {"rebalances": {"a.parquet": 1}}},
        ["history", "rebalances", "--store", "{}"],
    ),
    "cases": (BYTES["cases"][0], CASE, BYTES["cases"][1]),
    "plan": (SNAPSHOT, GROUP, ["plan", "orders", *PLAN, "--from-file", "{file}"]),
    "simulate-bounce": (
        SNAPSHOT, GROUP, ["simulate-bounce", "orders", "--all", "--restart-time", "5s", "--draws", "1", "--from-file", "{file}"]
    ),
    "drain": (SNAPSHOT, GROUP, ["drain", "--client-id", "*", "--draws", "1", "--from-file", "{file}"]),
    "diff": (SNAPSHOT, GROUP, ["diff", "{file}", "{file}"]),
}  # fmt: skip


@st.composite
def damaged(draw, data):
    """The bytes with some replaced, removed, repeated, or the end cut off."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        end = at + draw(st.sampled_from([1, 1, 2, 4, 30]))
        how = draw(st.sampled_from(["replaced", "replaced", "removed", "repeated", "cut"]))
        match how:
            case "replaced":
                found[at:end] = draw(
                    st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x7f"])
                )
            case "removed":
                del found[at:end]
            case "repeated":
                found[at:at] = found[at:end] * draw(st.sampled_from([1, 2, 100]))
            case "cut":
                del found[at:]
    return bytes(found)


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "it"))

    def check(make, words, changes, count):
        folder = tmp_path / "it"
        path = make(folder)
        whole = path.read_bytes()
        called = [word.replace("{file}", str(path)).replace("{}", str(folder)) for word in words]
        assert run([*called, "--debug"]) in (0, 2, 3, 6, 8), capsys.readouterr().err
        capsys.readouterr()

        @settings(max_examples=count, deadline=None)
        @given(changes(whole))
        def ends_with_an_error_of_its_own(data):
            path.write_bytes(data)
            code = run(called)
            said = capsys.readouterr()
            assert "internal error" not in said.err, said.err
            assert code in (0, 2, 3, 6, 7, 8), (code, said.err)

        ends_with_an_error_of_its_own()
        shutil.rmtree(folder)

    return check


def check_bytes(check, kind, count):
    make, words = BYTES[kind]
    check(make, words, damaged, count)


def check_structure(check, kind, count):
    make, document, words = STRUCTURES[kind]
    check(make, words, lambda _: mutated(document).map(lambda found: json.dumps(found).encode()), count)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", BYTES)
def test_damaged_bytes(check, kind):
    check_bytes(check, kind, 4)


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", STRUCTURES)
def test_damaged_structure(check, kind):
    check_structure(check, kind, 4)


@pytest.mark.parametrize("key", ["built_up_to", "records", "rows", "files"])
def test_a_manifest_with_a_truth_for_an_object(tmp_path, monkeypatch, capsys, key):
    forget_settings(monkeypatch)
    make, document, _ = STRUCTURES["manifest"]
    path = make(tmp_path / "it")
    path.write_text(json.dumps({**document, key: True}))
    assert run(["history", "rebalances", "--store", str(path.parent)]) == 2
    assert "was not written by kgm history build" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.timeout(3600)  # 250 runs of kgm
@pytest.mark.parametrize("kind", BYTES)
def test_many_damaged_bytes(check, kind):
    check_bytes(check, kind, 250)


@pytest.mark.long
@pytest.mark.timeout(3600)  # 250 runs of kgm
@pytest.mark.parametrize("kind", STRUCTURES)
def test_many_damaged_structures(check, kind):
    check_structure(check, kind, 250)


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "value", "code"),
    [("generation", 2**31, 2), ("generation", 2**31 - 1, 2), ("generation", 2**31 - 2**20 - 1, 0),
     ("rebalance_timeout_ms", 2**31, 2), ("rebalance_timeout_ms", 2**31 - 1, 0), ("session_timeout_ms", -(2**31) - 1, 2)],
)  # fmt: skip
def test_a_number_that_kafka_does_not_have(tmp_path, monkeypatch, capsys, key, value, code):
    """It counts generations and times in 32 bits; a plan needs some of them."""
    forget_settings(monkeypatch)
    path = SNAPSHOT(tmp_path / "it")
    path.write_text(json.dumps({**GROUP, key: value}))
    line = ["plan", "orders", *PLAN, "--from-file", str(path)]
    assert run(line) == code, capsys.readouterr().err
    assert ("more than Kafka can count" in capsys.readouterr().err) == (code == 2)
