"""How `kgm history` refuses, what it costs to start, and what hostile names and gone readers do to it."""

import builtins
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from kgm.cli.main import run
from tests import KGM
from tests.cli.commands.history.conftest import SEGMENTS
from tests.history.store.stores import write_store
from tests.records.real_logs import DATA


def said(capsys, *arguments):
    code = run(["history", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_group_that_is_not_there_is_3_and_files_and_what_is_not_understood_2(capsys, asked, tmp_path):
    assert asked("explain", "nobody")[0] == 3
    code, _, err = asked("explain", "billing", "--generation", "99")
    assert code == 3
    assert "generations in the history: 1, 2, 3, 4, 5, 6" in err
    assert asked("explain")[0] == 2
    assert asked("rebalances", "billing", "-g", "ledger")[0] == 2
    assert asked("rebalances", "--since", "yesterday")[0] == 2
    assert said(capsys, "rebalances")[0] == 2
    assert said(capsys, "rebalances", "--store", str(tmp_path))[0] == 2
    assert said(capsys, "rebalances", "--source", f"segments:{tmp_path / 'gone'}")[0] == 2
    assert said(capsys, "rebalances", "--source", f"segments:{tmp_path}")[0] == 2
    for source in ("segments", "segments:", "tape:x", "kafka:x"):
        assert said(capsys, "rebalances", "--source", source)[0] == 2
    assert said(capsys, "capture", "--source", SEGMENTS)[0] == 2
    assert said(capsys, "capture", "--out", str(tmp_path))[0] == 2


def test_records_of_the_live_topic_are_refused_and_the_error_says_what_to_do(capsys):
    code, _, err = said(capsys, "decode", "--source", "kafka")
    assert code == 6
    assert "kgm history capture --source kafka" in err


def test_a_large_source_is_refused_and_says_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr("kgm.operations.history.source.MOST_BYTES", 1000)
    code, _, err = said(capsys, "churn", "--source", SEGMENTS)
    assert code == 6
    assert f"kgm history build --source {SEGMENTS} --out DIR" in err


def test_a_store_of_a_newer_kgm_is_not_read(capsys, tmp_path):
    (tmp_path / "kgm-history.json").write_text('{"schema_version": 99}')
    code, _, err = said(capsys, "churn", "--store", str(tmp_path))
    assert code == 2
    assert "version 99" in err


@pytest.mark.parametrize("missing", ["pyarrow", "numpy"])
def test_without_the_extra_it_says_how_to_install_it(capsys, monkeypatch, missing, store):
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.startswith("kgm.history")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    code, _, err = said(capsys, "churn", "--source", SEGMENTS)
    assert code == 2
    assert "pip install 'kafka-kgm[history]'" in err


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from kgm.cli.main import run; run(['history', '--help']); run(['history', 'explain', '--help']);"
        "heavy = {'pyarrow', 'numpy', 'pandas', 'pyspark', 'asyncio', 'rich.console', 'confluent_kafka'};"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "rebalances" in done.stdout
    assert done.stderr == ""


@pytest.mark.long
@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(store):
    command = [*KGM, "history", "rebalances", "--store", str(store), "-o", "ndjson"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0


@pytest.mark.long
@pytest.mark.slow
def test_a_torn_copy_is_read_up_to_where_it_is_torn_and_damage_is_told(capsys, tmp_path):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    data = gzip.decompress((DATA / "plain" / folder.name / "00000000000000000000.log.gz").read_bytes())
    log = folder / "00000000000000000000.log"
    log.write_bytes(data[:-7])
    code, _, err = said(capsys, "explain", "billing", "--source", f"segments:{tmp_path}")
    assert code == 0
    assert "1 segment ended in the middle of a batch" in err
    wrong = bytearray(data)
    wrong[len(data) // 2] ^= 0xFF
    log.write_bytes(wrong)
    code, _, err = said(capsys, "explain", "billing", "--source", f"segments:{tmp_path}")
    assert code == 0
    assert re.search(r"warning: .*00000000000000000000.log at byte \d+: .*not read", err)


@pytest.mark.parametrize("command", ["rebalances", "explain", "timeline", "movement", "offsets"])
@pytest.mark.parametrize("damage", ["4 bytes", "other file"])
def test_a_group_in_records_that_cannot_be_read_is_not_said_to_be_absent(command, damage, capsys, tmp_path):
    """The group is there, in a segment of which nothing can be read: exit code 3 would be wrong."""
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    data = bytearray(gzip.decompress((DATA / "plain" / folder.name / "00000000000000000000.log.gz").read_bytes()))
    assert b"billing" in data
    data[70:74] = bytes(each ^ 0xFF for each in data[70:74])
    (folder / "00000000000000000000.log").write_bytes(
        random.Random(1).randbytes(900) if damage == "other file" else data
    )
    code, out, err = said(capsys, command, "billing", "--source", f"segments:{tmp_path}", "-o", "json")
    assert code == 7
    assert re.search(r"warning: .*00000000000000000000.log.*not read", err)
    assert "hint: kgm history verify --source segments:" in err
    document = json.loads(out)
    assert [one["code"] for one in document["errors"]] == ["PARTIAL"]
    assert len(document["warnings"]) == 1


def test_nor_is_a_generation_in_records_that_cannot_be_read(capsys, tmp_path):
    shutil.copytree(DATA / "plain" / "__consumer_offsets-1", tmp_path / "__consumer_offsets-1")
    words = ("explain", "billing", "--generation", "99", "--source", f"segments:{tmp_path}")
    assert said(capsys, *words)[0] == 3
    (tmp_path / "__consumer_offsets-2").mkdir()
    (tmp_path / "__consumer_offsets-2" / "00000000000000000000.log").write_bytes(random.Random(1).randbytes(900))
    code, _, err = said(capsys, *words)
    assert code == 7
    assert "generations in the history: 1, 2, 3, 4, 5, 6" in err


@pytest.mark.long
@pytest.mark.slow
def test_the_next_command_is_about_the_last_rebalance_of_the_busiest_group(capsys):
    code, out, _ = said(capsys, "rebalances", "--source", SEGMENTS, "-o", "json")
    rows = json.loads(out)["data"]["rebalances"]
    counts = Counter(row["group_id"] for row in rows)
    (busiest, most), (_, second) = counts.most_common(2)
    assert most > second
    assert rows[-1]["group_id"] != busiest
    last = max((row for row in rows if row["group_id"] == busiest), key=lambda row: row["at"])
    code, out, _ = said(capsys, "rebalances", "--source", SEGMENTS)
    assert code == 0
    generation = last["generation_after"]
    assert f"next: kgm history explain {busiest} --generation {generation} --source {SEGMENTS}" in out


HOSTILE = "=cmd()\x1b[31m<script>alert(1)</script>\u202egroup"


@pytest.fixture
def hostile(tables, tmp_path):
    """A store in which one group has a name that does things to terminals, spreadsheets and browsers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    renamed = {}
    for name, table in tables.tables.items():
        if "group_id" in table.column_names:
            column = table.column("group_id")
            chosen = pc.if_else(pc.equal(column, "billing"), pa.scalar(HOSTILE), column)
            place = table.column_names.index("group_id")
            renamed[name] = table.set_column(place, table.schema.field("group_id"), chosen)
        else:
            renamed[name] = table
    return write_store(tmp_path / "store", renamed)


@pytest.mark.long
def test_hostile_names_do_nothing(capsys, hostile, tmp_path):
    page = tmp_path / "page.html"
    for command in (["rebalances"], ["churn", "--report", str(page)], ["explain", HOSTILE, "--report", f"{page}.2"]):
        for form in ("table", "csv", "markdown", "name"):
            code, out, _ = said(capsys, *command, "--store", str(hostile), "-o", form)
            assert code == 0
            assert "\x1b" not in out
            assert "\u202e" not in out
            if form == "csv":
                assert not re.search(r"(^|,)=cmd", out, re.MULTILINE)
    for name in (page, pathlib.Path(f"{page}.2")):
        text = name.read_text(encoding="utf-8")
        assert "<script>" not in text
        assert "\x1b" not in text
        assert "cmd()" in text


@pytest.mark.long
def test_pages_stand_alone(asked, answer, tmp_path):
    """Nothing is loaded, nothing runs; what is known is on it."""
    page = tmp_path / "page.html"
    assert asked("explain", "billing", "--generation", "6", "--report", str(page))[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=|https?://", text)
    for words in (
        "History of billing",
        "admin removal (possible)",
        "orders",
        "billing-3",
        "prefers-color-scheme: dark",
    ):
        assert words in text
    assert asked("churn", "--report", str(page))[0] == 0
    count = len(answer("rebalances")["rebalances"])
    assert f"{count} rebalances of" in page.read_text(encoding="utf-8")
    assert asked("churn", "--report", str(tmp_path / "no" / "page.html"))[0] == 2


def test_times_are_understood_in_many_forms():
    from kgm.cli.options.history import parse_time

    assert parse_time("1970-01-01T00:00:01Z", "--since") == 1000
    assert parse_time("1970-01-02", "--since") == 86_400_000
    assert parse_time("1970-01-01T02:00+02:00", "--since") == 0
    hour, day = parse_time("1h", "--since"), parse_time("1.5d", "--since")
    assert abs(hour - day - 35 * 3_600_000) < 5_000


def test_environment_names_the_store(capsys, store, monkeypatch):
    monkeypatch.setenv("KGM_HISTORY_STORE", os.fspath(store))
    code, out, _ = said(capsys, "churn", "-o", "name")
    assert code == 0
    assert "billing" in out.splitlines()
