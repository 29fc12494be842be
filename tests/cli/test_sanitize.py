"""Ids are whatever a client sent: thirty that would do harm, in every text format."""

import csv
import io
import json
import unicodedata

import pytest

from kgm.cli.options import Common
from kgm.cli.output import Column, Report, Table, rendered
from kgm.cli.sanitize import clean, csv_cell

HOSTILE = [
    "\x1b]0;owned\x07", "\x1b[2J", "\x1b[31mred", "\x9b31m", "a\nb", "a\r\nb", "a\tb", "\0", "\x7f", "\x08\x08",
    "\u202eevil", "\u2066x\u2069", "\u200b", "\u200d", "\ufeff", "\u2028", "\u2029", "\ud800", "\U000e0001", "\u00ad",
    "=1+1", "+1", "-1", "@SUM(A1)", "[red]x[/red]", "[link=http://x]y[/link]", "%s%n", "$(id)", "`id`", "{}{0.__class__}",
]  # fmt: skip


def hidden(text):
    return [char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and char != "\n"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_active_is_left(text):
    assert hidden(clean(text)) == []
    assert "\n" not in clean(text)
    assert not csv_cell(text).startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize("text", ["plain-id_1.2", "größe", "日本", "a b"])
def test_honest_names_stay(text):
    assert clean(text) == text


@pytest.mark.parametrize("output", ["table", "wide", "csv", "tsv", "name", "markdown"])
@pytest.mark.parametrize("text", HOSTILE)
def test_every_text_format_is_clean(text, output):
    report = Report(
        schema="kgm.test/v1", data={}, names=[text],
        tables=[Table(columns=[Column(title="ID"), Column(title="N", right=True)], rows=[[text, 1]], heading=text, notes=[text])],
    )  # fmt: skip
    shown = rendered(report, Common(output=output, color="never"))
    assert hidden(shown.replace("\t", "") if output == "tsv" else shown) == []
    if output == "csv":
        rows = list(csv.reader(io.StringIO(shown)))
        assert len(rows) == 2
        assert rows[1][1] == "1"


@pytest.mark.parametrize("text", HOSTILE)
def test_rich_interprets_nothing(text, capsys):
    table = Table(columns=[Column(title="ID")], rows=[[text]])
    rendered(Report(schema="kgm.test/v1", data={}, tables=[table]), Common(color="always"))
    shown = capsys.readouterr().out
    assert clean(text) in shown


@pytest.mark.parametrize("text", [text for text in HOSTILE if text != "\ud800"])
def test_json_stays_exact(text):
    report = Report(schema="kgm.test/v1", data={"id": text})
    assert json.loads(rendered(report, Common(output="json")))["data"]["id"] == text
