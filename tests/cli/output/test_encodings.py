"""What a program reads is UTF-8, whatever the locale is; what a terminal cannot show is escaped."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess

import pytest

from tests import KGM
from tests.cli.environment import bare
from tests.client.conftest import server  # noqa: F401  (fixture)
from tests.client.joiners import form_group

GROUP = "caf\u00e9-\u4e2d"
ENCODINGS = ("ascii", "latin-1", "utf-8")
CASE = {
    "case": GROUP, "assignor": "range", "topics": [{"name": "t", "partitions": 1}],
    "members": [{"member_id": GROUP, "topics": ["t"]}],
}  # fmt: skip


@pytest.fixture(scope="module")
def bootstrap(server):  # noqa: F811
    joiners = form_group(server, GROUP, ("a",), "orders")
    yield server.bootstrap
    for joiner in joiners:
        joiner.close()


def piped(encoding: str, *words: str) -> bytes:
    environment = {**bare(), "PYTHONIOENCODING": encoding}
    done = subprocess.run([*KGM, *words], env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.few(1)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_groups_in_data_formats(bootstrap, encoding):
    shown = {form: piped(encoding, "list", "-b", bootstrap, "-o", form) for form in ("json", "ndjson", "csv", "name")}
    assert [one["group_id"] for one in json.loads(shown["json"])["data"]["groups"]] == [GROUP]
    assert json.loads(shown["ndjson"])["group_id"] == GROUP
    assert [row["group_id"] for row in csv.DictReader(io.StringIO(shown["csv"].decode("utf-8")))] == [GROUP]
    assert shown["name"].decode("utf-8") == f"{GROUP}\n"


@pytest.mark.few(1)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_lines_of_commands_with_formats_of_their_own(bootstrap, tmp_path, encoding):
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(CASE))
    assert json.loads(piped(encoding, "assign", "--from-file", str(path)))["assignment"] == {GROUP: {"t": [0]}}
    assert f'"{GROUP}"' in piped(encoding, "export", "-b", bootstrap).decode("utf-8")


def test_what_a_terminal_lacks_is_escaped(bootstrap):
    here, there = pty.openpty()
    environment = {**bare(), "PYTHONIOENCODING": "ascii", "TERM": "dumb", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [*KGM, "list", "-b", bootstrap], env=environment, stdin=there, stdout=there, stderr=there
    )
    os.close(there)
    shown = b""
    try:
        while piece := os.read(here, 4096):
            shown += piece
    except OSError:  # Linux's end of file
        pass
    finally:
        os.close(here)
    assert process.wait(60) == 0
    assert b"caf\\xe9-\\u4e2d" in shown
