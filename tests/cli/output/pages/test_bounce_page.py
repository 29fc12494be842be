"""The report of a planned bounce, against the JSON of the same run, and as a browser shows it."""

import json
import re

import numpy as np
import pytest

from kgm.cli.output.pages.page import OWNER_COLOURS
from tests.cli.runner import kgm
from tests.selection import sized

from .reading import assert_stands_alone, dom, look, print_out, tree

MADE_UP = ("simulate-bounce", "--members", "4", "--topic", "orders:12", "--all", "--restart-time", "8s")
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m&\"'"


@pytest.fixture
def reported(tmp_path):
    """Runs kgm with --report; returns the page, its text and the JSON of the same run."""

    def play(*args):
        target = tmp_path / "report.html"
        done = kgm(*args, "--report", str(target), "-o", "json")
        assert done.code == 0, done.err
        return target, target.read_text(), json.loads(done.out)["data"]

    return play


def seconds(shown):
    return float(shown.split(" ")[0].replace(",", ""))


def test_the_page_says_what_the_json_says(reported):
    _, page, data = reported(*MADE_UP, "--rolling", "--compare", "--draws", "5")
    assert_stands_alone(page)
    found = tree(page)
    rows = {row.all("td")[0].text: [cell.text for cell in row.all("td")] for row in found.all("table")[0].all("tr")[1:]}
    assert list(rows) == [scenario["name"] for scenario in data["scenarios"]]
    for scenario in data["scenarios"]:
        row = rows[scenario["name"]]
        assert int(row[3].split(" ")[0]) == scenario["rebalances"]
        assert int(row[4].split(" ")[0]) == scenario["moved_partitions"]
        assert int(row[5].split(" ")[0]) == scenario["handovers"]
        assert seconds(row[6]) == pytest.approx(scenario["stopped_partition_ms"] / 1000, abs=0.06)
        assert row[8].startswith("yes" if scenario["exact"] else "no")
    assert len(found.all("figure")) == len(rows)
    moves = [heading.text for heading in found.all("h3") if heading.text.startswith("Moves:")]
    assert moves == [f"Moves: {s['moved_partitions']}" for s in data["scenarios"] if s["moved_partitions"]]


@pytest.mark.parametrize(("shape", "tick_s"), [("broad", 5), ("narrow", 10)])
def test_a_gap_in_the_chart_is_the_time_without_a_consumer(reported, shape, tick_s):
    _, page, data = reported(*MADE_UP, "--rolling")
    chart = tree(page).all("figure")[0].all("div", shape)[0]
    scenario = data["scenarios"][0]
    ticks = [(node.text, float(node.attributes["x"])) for node in chart.all("text", "soft mid")]
    zero, tick = dict(ticks)["0ms"], dict(ticks)[f"{tick_s}s"]
    drawn_ms = 0.0
    for path in chart.all("path", "gap"):
        hint = path.all("title")[0].text
        low, _, high = hint.removeprefix("no consumer: orders ").partition("-")
        widths = [float(width) for width in re.findall(r"h([\d.]+)v", path.attributes["d"])]
        drawn_ms += sum(widths) / (tick - zero) * tick_s * 1000 * (int(high) - int(low) + 1)
    assert drawn_ms == pytest.approx(scenario["stopped_partition_ms"], rel=0.02)
    assert not chart.all("path", "mark"), "no rebalance, no line"


def test_rebalances_are_marked(reported):
    _, page, data = reported(*MADE_UP, "--as", "dynamic", "--draws", "3")
    noted = {event["at_ms"] for event in data["scenarios"][0]["timeline"] if event["event"] == "rebalance"}
    assert noted
    for drawn in tree(page).all("figure")[0].all("div"):
        assert len(drawn.all("path", "mark")) == len(noted)


def group_with(name, partitions):
    member = {
        "group_instance_id": name, "member_id": f"{name}-1", "client_id": name, "client_host": "/127.0.0.1", "rack": None,
        "member_epoch": None, "status": "stable", "subscription": {"topics": [name], "regex": None},
        "assignment": {name: list(range(partitions))}, "target_assignment": None, "lag": None,
    }  # fmt: skip
    return {
        "group_id": name, "type": "classic", "state": "Stable", "protocol_type": "consumer", "assignor": "range",
        "coordinator": {"id": 1, "host": "h", "port": 1}, "generation": 3, "group_epoch": None, "assignment_epoch": None,
        "session_timeout_ms": 45000, "rebalance_timeout_ms": 300000, "topics": [{"name": name, "partitions": partitions}],
        "members": [member], "offsets": [],
    }  # fmt: skip


def test_a_hostile_group_stays_text(reported, tmp_path):
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(json.dumps(group_with(HOSTILE, 3)))
    _, page, _ = reported("simulate-bounce", "--from-file", str(snapshot), "--all")
    assert_stands_alone(page)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", page)
    assert "<script>" in tree(page).all("h1")[0].text


def test_a_report_that_cannot_be_written_is_said(tmp_path):
    done = kgm(*MADE_UP, "--report", str(tmp_path / "no" / "where.html"))
    assert done.code == 2
    assert "cannot be written" in done.err


INK_ON_DARK = (20, 24, 29)
OWNERS = [tuple(bytes.fromhex(colour.removeprefix("#"))) for colour in OWNER_COLOURS]


def hatched(picture):
    """How much of the hatch, and of letters, is in each line of pixels that shows an owner."""
    owned = np.any([(picture == np.array(colour)).all(axis=2) for colour in OWNERS], axis=0)
    apart = np.abs(picture.astype(int) - picture[2, 2]).max(axis=2) > 60
    grey = picture.astype(int).max(axis=2) - picture.min(axis=2) <= 16
    return (apart & grey).sum(axis=1)[owned.sum(axis=1) > 150]


def test_a_row_is_named_by_its_partitions_where_its_topic_is_too_long(reported):
    topic = "a-topic-with-a-long-name-of-many-words-that-nobody-shortens"
    _, page, _ = reported("simulate-bounce", "--members", "2", "--topic", f"{topic}:8", "--all", "--draws", "1")
    chart = tree(page).all("figure")[0]
    for shape, shown in (("broad", "a-topic-with-a-long-name-of-…"), ("narrow", "a-topic-wi…")):
        labels = [node for node in chart.all("div", shape)[0].all("text", "end") if node.all("title")]
        assert [node.all("title")[0].text for node in labels] == [f"{topic} 0-3", f"{topic} 4-7"]
        assert [node.children[-1] for node in labels] == [f"{shown} 0-3", f"{shown} 4-7"]


@pytest.mark.slow
def test_a_browser_shows_twelve_partitions_and_prints_them(reported, tmp_path):
    target, _, _ = reported(*MADE_UP, "--rolling")
    light = look(target, tmp_path)
    assert tuple(light[2, 2]) == (255, 255, 255)
    # Four members are down 8 of 35 s each, one after the other: each has a row of bars, a fifth of it hatched.
    for picture in (light, look(target, tmp_path, dark=True)):
        lines = hatched(picture)
        assert len(lines) >= 4 * 8
        assert lines.min() > 50
        assert lines.max() < 300
    assert tuple(picture[2, 2]) == INK_ON_DARK
    assert 1 <= printed_pages(target, tmp_path) <= 3


def printed_pages(target, folder):
    return len(re.findall(rb"/Type\s*/Page\b", print_out(target, folder)))


@pytest.mark.long
@pytest.mark.slow
def test_a_browser_shows_twelve_hundred_partitions_and_prints_them(reported, tmp_path):
    target, page, _ = reported(
        "simulate-bounce", "--members", "60", "--topic", "orders:1000", "--topic", "pay:200", "--all", "--rolling",
        "--max-unavailable", "20", "--as", "dynamic", "--assignor", "sticky", "--draws", "2",
    )  # fmt: skip
    assert len(page) < 1_500_000
    labels = tree(page).all("figure")[0].all("div", "broad")[0].all("text", "end")
    assert 20 < len(labels) <= 91, "as many rows as a person can read"
    picture = look(target, tmp_path, height=2400)
    assert (hatched(picture) > 50).sum() > 300
    assert 2 <= printed_pages(target, tmp_path) <= 15


#: A browser's window is not as narrow as a phone, but a frame is.
FRAME = """<title>no answer</title><script>onmessage = event => document.title = event.data</script>
<iframe width="{width}" height="800" src="measured.html"></iframe>"""
#: How many pixels the page is wide; of the charts that are seen: how many, and the size of the smallest text in them.
MEASURE = """<script>onload = () => {
  const seen = [...document.querySelectorAll('figure svg')].filter(chart => chart.getBoundingClientRect().width > 0);
  const size = chart => 10 * chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
  const told = [document.documentElement.scrollWidth, seen.length, Math.min(...seen.map(size))];
  parent.postMessage(told.join(' '), '*') }</script></body>"""


@pytest.mark.slow
@pytest.mark.parametrize("width", sized([390], [390, 1000]))
def test_charts_can_be_read_on_a_phone(reported, tmp_path, width):
    """Each is there once, its text is not shrunk, and only tables scroll sideways."""
    _, page, data = reported(*MADE_UP, "--rolling", "--compare", "--draws", "2")
    (tmp_path / "measured.html").write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page).replace("</body>", MEASURE)
    )
    (tmp_path / "frame.html").write_text(FRAME.format(width=width))
    total, charts, smallest = map(float, dom(tmp_path / "frame.html", tmp_path).all("title")[0].text.split())
    assert total <= width
    assert charts == len(data["scenarios"])
    assert smallest > 8.5


@pytest.mark.slow
def test_a_browser_takes_hostile_names_for_text(reported, tmp_path):
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(json.dumps(group_with(HOSTILE, 3)))
    target, _, _ = reported("simulate-bounce", "--from-file", str(snapshot), "--all")
    found = dom(target, tmp_path)
    assert not found.all("script")
    assert "<script>alert(1)</script>" in found.all("h1")[0].text
