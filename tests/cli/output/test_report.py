"""The formats of `-o`, at a terminal and without one."""

import csv
import html
import io
import json
import re

import pytest
import yaml

from kgm.cli import invocation
from kgm.cli.options.run_options import RunOptions
from kgm.cli.output import report as output
from kgm.cli.output.failures import print_warning
from kgm.cli.output.notices import Notices
from kgm.cli.output.output_options import FORMATS, OutputOptions
from kgm.cli.output.report import Column, Report, Table, object_table, rendered
from kgm.cli.output.table_text import TableStyle, cells, fold, table_lines
from kgm.text.sanitize import clean
from tests.cpu_time import allowed
from tests.text.hostile import HOSTILE, OUR_COLORS, hidden, is_formula

COLUMNS = [
    Column(title="INSTANCE-ID"),
    Column(title="MEMBER-ID"),
    Column(title="LAG", right=True),
    Column(title="NOTE", wide=True),
]


KEYS = ("group_instance_id", "member_id", "lag", "note")


def report(*rows):
    return Report(
        schema="kgm.test/v1", data={}, names=[row[0] for row in rows], tables=[Table(columns=COLUMNS, rows=rows)],
        keys=KEYS, items=[dict(zip(KEYS, row, strict=True)) for row in rows],
    )  # fmt: skip


def shown(text_format, *rows, **common):
    return rendered(report(*rows), RunOptions(output=text_format, color="never", **common))


@pytest.mark.parametrize("text_format", ["table", "wide", "csv", "tsv", "name", "markdown"])
def test_every_text_format_is_clean(text_format):
    for text in HOSTILE:
        found = rendered(
            Report(
                schema="kgm.test/v1", data={}, names=[text],
                tables=[Table(columns=[Column(title="ID"), Column(title="N", right=True)], rows=[[text, 1]], heading=text, notes=[text])],
                keys=["id", "n"], items=[{"id": text, "n": 1}],
            ),
            RunOptions(output=text_format, color="never"),
        )  # fmt: skip
        assert hidden(found, but="\n\t" if text_format == "tsv" else "\n") == []
        if text_format in ("csv", "tsv"):
            rows = list(csv.reader(io.StringIO(found), delimiter="," if text_format == "csv" else "\t"))
            assert [len(row) for row in rows] == [2, 2]
            assert rows[1][1] == "1"
            assert not is_formula(rows[1][0])


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "<img src=x onerror=y>", "[x](javascript:alert(1))", "![x](http://h/x.png)", "a|b",
     "`code`", "&lt;b&gt;", "https://h/x", "www.h.org/x", "**b**", "\\|", "\\<b>", "<http://h>", "~~x~~"],
)  # fmt: skip
def test_markdown_shows_a_name_and_makes_nothing_of_it(text):
    table = Table(columns=[Column(title="ID")], rows=[[text]], heading=text)
    found = rendered(Report(schema="kgm.test/v1", data={}, tables=[table]), RunOptions(output="markdown"))
    heading, _, _, _, row = found.splitlines()
    for line in (heading, row.removeprefix("| ").removesuffix("|").strip()):
        assert not re.search(r"(?<!\\)(\\\\)*[<>|\[\]`*~]", line)
        assert "://" not in line
        assert "www." not in line
        assert html.unescape(re.sub(r"\\([^\w\s&])", r"\1", line)) == text


def test_colour_is_the_only_thing_that_a_terminal_acts_on():
    for text in HOSTILE:
        table = Table(columns=[Column(title="ID")], rows=[[text]], heading=text, notes=[text])
        found = rendered(Report(schema="kgm.test/v1", data={}, tables=[table]), RunOptions(color="always"))
        assert found.count(clean(text)) == 3
        assert hidden(OUR_COLORS.sub("", found)) == []


@pytest.mark.parametrize("text_format", ["json", "ndjson"])
def test_json_stays_exact(text_format):
    for text in HOSTILE:
        found = rendered(
            Report(schema="kgm.test/v1", data={"id": text}, items=[{"id": text}]), RunOptions(output=text_format)
        )
        document = json.loads(found)
        assert (document if text_format == "ndjson" else document["data"])["id"] == text
        assert hidden(found) == []


def test_json_of_words_that_are_no_utf_8():
    """As Python has them from a command line."""
    found = rendered(Report(schema="kgm.test/v1", data={"id": "\udcff", "ids": []}), RunOptions(output="json"))
    assert json.loads(found)["data"] == {"id": "\udcff", "ids": []}
    assert '\n    "ids": []\n' in found


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_warnings_are_in_the_data_too(output, capsys):
    """Each once, also those that are given while it is printed, and none of an earlier run."""
    invocation.remember(["list"])
    print_warning("of an earlier run")
    invocation.remember(["list"])
    Notices().warn("no DESCRIBE")
    print_warning("no DESCRIBE")
    groups = (print_warning(f"{name} is odd") for name in ("a",))
    text = rendered(Report(schema="kgm.test/v1", data={"groups": groups}), RunOptions(output=output))
    found = json.loads(text) if output == "json" else yaml.safe_load(text)
    assert found["warnings"] == ["no DESCRIBE", "a is odd"]
    assert capsys.readouterr().err.count("warning: no DESCRIBE") == 2


def test_columns_are_two_spaces_apart():
    assert shown("table", ["a", "consumer-1", 5, "x"], ["größe", None, 12, None]) == (
        "INSTANCE-ID  MEMBER-ID   LAG\na            consumer-1    5\ngröße        -            12\n"
    )
    assert shown("wide", ["a", "b", 5, "x"], headers=False) == "a  b  5  x\n"


def test_wide_characters_take_two_cells():
    first, second = shown("table", ["日本", "b", 1, None], ["e\u0301", "b", 1, None], headers=False).splitlines()
    assert cells(first) == cells(second) == len("日本") + len(first)


def test_no_headers():
    for text_format in ("table", "wide", "csv", "tsv"):
        assert "INSTANCE" not in shown(text_format, ["a", "b", 1, None], headers=False).upper()


def test_nothing_is_printed_of_no_rows_without_headers():
    for text_format in ("table", "wide", "csv", "tsv"):
        assert shown(text_format, headers=False) == ""


def test_csv_quotes_cells_with_separators():
    assert shown("csv", ['a"b', "c;d", 1, "e,f"], headers=False) == '"a""b","c;d",1,"e,f"\n'
    assert shown("tsv", ['a"b', "c;d", -1, "e,f"], headers=False) == '"a""b"\tc;d\t-1\te,f\n'


MEMBER = "payments-2-d8339230-1f74-4869-98ef-a95df2d51cae"


@pytest.mark.parametrize("width", [50, 60, 80, 100])
def test_a_narrow_terminal_folds_cells(width):
    titles, rows = ["INSTANCE-ID", "MEMBER-ID", "LAG", "ASSIGNMENT"], [["payments-1", MEMBER, "7", "orders[0-11]"]]
    lines = table_lines(titles, rows, [False, False, True, False], TableStyle(width=width))
    assert max(map(len, lines)) <= width
    start, stop = lines[0].index("MEMBER-ID"), lines[0].index("LAG")
    assert "".join(line[start:stop].strip() for line in lines[1:]) == MEMBER
    assert lines[1].endswith("7  orders[0-11]")


@pytest.mark.parametrize("width", [25, 30, 50])
def test_where_columns_would_be_too_narrow_each_row_is_a_block(width):
    titles = ["INSTANCE-ID", "MEMBER-ID", "HOST", "STATUS", "PARTITIONS", "LAG", "ASSIGNMENT"]
    row = ["payments-1", MEMBER, "127.0.0.1", "Stable", "12", "-", "orders[0-11]"]
    lines = table_lines(titles, [row, row], [False] * 7, TableStyle(width=width))
    assert max(map(len, lines)) <= width
    assert lines[0] == "INSTANCE-ID  payments-1"[:width]
    assert "LAG" not in "\n".join(lines)
    assert lines.count("") == 1


def test_folding_loses_nothing():
    text = "a" * 40 + "-" + "b" * 3 + "," + "日" * 20
    for width in range(1, 70):
        pieces = fold(text, width)
        assert "".join(pieces) == text
        assert all(cells(piece) <= max(width, 2) for piece in pieces)


def test_folding_keeps_words_options_and_indentation():
    command = "  -> kgm simulate-bounce legacy --all --rolling"
    assert fold(command, 30) == ["  -> kgm simulate-bounce", "  legacy --all --rolling"]
    assert fold(command, 24) == ["  -> kgm simulate-bounce", "  legacy --all --rolling"]
    for text in (command, " " * 40 + "x", " 日" * 20):
        for width in range(1, 50):
            pieces = fold(text, width)
            assert "".join("".join(pieces).split()) == "".join(text.split())
            assert all(cells(piece) <= max(width, 2) for piece in pieces)


def test_a_row_without_a_first_cell_continues_the_block():
    rows = [["error", "payments", "what it is"], ["", "", "  evidence"], ["info", "-", "other"]]
    lines = table_lines(["SEVERITY", "GROUP", "FINDING"], rows, [False] * 3, TableStyle(width=24))
    assert lines == [
        "SEVERITY  error", "GROUP     payments", "FINDING   what it is", "            evidence", "",
        "SEVERITY  info", "FINDING   other",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "color", "colored"),
    [
        ({}, "auto", True),
        ({"NO_COLOR": "1"}, "auto", False),
        ({"TERM": "dumb"}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
        ({}, "never", False),
    ],
)
def test_colour_at_a_terminal(monkeypatch, variables, color, colored):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert output.wants_color(RunOptions(color=color), Terminal()) is colored
    assert output.wants_color(RunOptions(color=color), io.StringIO()) is (color == "always")


@pytest.mark.long
def test_ten_thousand_members_are_fast():
    import time

    rows = [[f"app-{i:05d}", f"app-{i:05d}-{MEMBER}", i, "orders[1,2]"] for i in range(10_000)]
    for text_format in FORMATS:
        start = time.process_time()
        text = shown(text_format, *rows) if text_format != "schema" else "app-09999"
        assert time.process_time() - start < allowed(3)
        assert "app-09999" in text or text_format in ("json", "yaml", "ndjson")


def test_a_table_of_objects_has_what_csv_has():
    """Partitions, lists and their own separators as text; nothing for what is unknown or empty."""
    items = [
        {
            "assignment": {"t-10": [1], "t-2": [0, 1, 3]},
            "verdict": {"evidence": ["a", "b"]},
            "tasks": ["x", "y"],
            "n": 0,
        },
        {"assignment": {}, "verdict": None, "tasks": [], "n": None},
    ]
    keys = ("assignment", "why=verdict.evidence", "tasks", "n")
    cells = [["t-2[0-1,3] t-10[1]", "a; b", "x,y", 0], [None, None, None, None]]
    assert [*object_table({key: Column(title=key) for key in keys}, items).rows] == cells
    shown = Report(schema="x", data={}, keys=keys, items=items)
    assert rendered(shown, OutputOptions(output="tsv")).splitlines() == [
        "assignment\twhy\ttasks\tn", "t-2[0-1,3] t-10[1]\ta; b\tx,y\t0", "\t\t\t",
    ]  # fmt: skip


def test_csv_has_rows_of_items_and_columns_of_keys():
    """Values as in JSON: numbers, not durations; nested keys joined, or under a name of their own."""
    items = [
        {
            "group_id": "g",
            "stopped_ms": {"min": 3, "max": None},
            "costs": {"median": 2},
            "exact": True,
            "also": ["a", "b"],
        },
        {"group_id": "h", "stopped_ms": None, "costs": None, "exact": None, "also": []},
    ]
    shown = Report(
        schema="x", data={}, tables=[Table(columns=[Column(title="FOR")], rows=[["1m"]])], items=items,
        keys=["group_id", "stopped_ms.min", "stopped_ms.max", "costs=costs.median", "exact", "also"],
    )  # fmt: skip
    assert rendered(shown, OutputOptions(output="csv")).splitlines() == [
        "group_id,stopped_ms_min,stopped_ms_max,costs,exact,also", 'g,3,,2,yes,"a,b"', "h,,,,,",
    ]  # fmt: skip
    assert rendered(shown, OutputOptions(output="table")).splitlines() == ["FOR", "1m"]


@pytest.mark.parametrize("color", ["never", "always"])
@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("count", [2, 3, 4, 9, 10])
def test_a_long_table_has_the_columns_of_all_its_rows(count, headers, color, monkeypatch):
    """The widest cells, one of them of wide characters, are in the last row, which becomes text after all others."""
    rows = [[f"svc-{number}", f"m-{number}", number, None] for number in range(count)]
    rows[-1] = ["\u65e5\u672c\u8a9e\u30b5\u30fc\u30d3\u30b9", "m" * 20, 123_456_789, "n"]
    options = {"headers": headers, "color": color}
    table = Table(columns=COLUMNS, rows=rows, heading="heading", notes=iter(["a note"]))
    monkeypatch.setattr(output, "_ROWS_AT_ONCE", 3)
    long = rendered(Report(schema="kgm.test/v1", data={}, tables=[table]), RunOptions(output="wide", **options))
    monkeypatch.setattr(output, "_ROWS_AT_ONCE", 1_000)
    table = Table(columns=COLUMNS, rows=rows, heading="heading", notes=["a note"])
    assert long == rendered(Report(schema="kgm.test/v1", data={}, tables=[table]), RunOptions(output="wide", **options))
    assert long.count("\n") == count + headers + 2
