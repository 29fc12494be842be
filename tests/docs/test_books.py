"""Runbooks are true: run against a real Kafka, their commands print what the page shows."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from kgm.client import connect
from kgm.client.offsets_topic.group_tail import GroupRecordTail, decoded
from tests.docs.book import DOCS, Book, play
from tests.kafka.heartbeat_group import wait_coordinator_knows
from tests.kafka.versions import shared_broker
from tests.selection import sized

pytestmark = pytest.mark.shows("runbooks")

#: The lines of a timeline in which processes are stopped at about the same time.
_STOPS = re.compile(r"(?m)(^1\.0s stop .*\n){2,}")
#: The others only with `--long`.
PLAYED_EACH_TIME = ["dead-static-member"]
BOOKS = sorted(path.stem for path in DOCS.glob("*.md") if "<!-- fleet:" in path.read_text())


def comparable(step, text):
    """Without what differs between runs: generations depend on the order of joins, predicted and measured times vary, and
    the widths of columns with them; so does who of several members that are stopped together is stopped first, and whether
    a member has committed twice before all is read, which tells how often it commits."""
    text = re.sub(r"\bgeneration \d+", "generation 1", text)
    text = re.sub(r"\d+ groups? examined", "1 group examined", text)  # the broker has those of other books too
    if re.match(r"kgm (drain|plan)|.*(simulate-bounce|doctor)", step.command):
        text = re.sub(r"s \(\d+\.\d-\d+\.\d\)", "s (1.0-1.0)", text)
        text = re.sub(r" +", " ", re.sub(r"\b(\d+m)?\d+(\.\d+)?(s|ms|m)\b", "1.0s", text))
        text = _STOPS.sub(lambda found: "".join(sorted(found[0].splitlines(keepends=True))), text)
    if "remove-members" in step.command:
        text = text.replace("; the group's log does not show how often it commits", "")
        text = re.sub(r" +", " ", re.sub(r"\bfor \d+(\.\d+)? s\b", "for 1.0 s", text))
    return text


def comparable_of_framework(step, text):
    """Which process has which task, and what moves, differs between runs: the words remain, without what is counted."""
    text = comparable(step, text)
    if "simulate-bounce" in step.command:
        text = text.partition("\nmoves")[0].partition("\ntimeline")[0]
        text = "\n".join(line for line in text.splitlines() if not line.startswith("note: "))
    varies = ("warning: standbys", "warning: nobody else", "warning: rebalances until")
    lines = [line for line in text.splitlines() if not line.startswith(varies)]
    # What there is to see of a thread depends on its tasks.
    lines = [re.sub(r"^(\S+ +\S+ +(planned|removed)) .*", r"\1", line) for line in lines]
    words = [[word for word in line.split() if re.fullmatch(r"[A-Za-z:]+", word)] for line in lines]
    return [[word for word in line if word not in ("files", "tables", "lake")] for line in words]


def expected(step, kafka):
    """What the page shows, as far as the processes did what it tells: two that run with one instance id take it from each
    other at once. Where a busy machine left so long between any two of them that it may have been one process, which was
    restarted, kgm must say that it may."""
    if step.command != "kgm doctor shipping" or took_over_at_once(kafka.bootstrap, "shipping"):
        return step.output
    text = step.output.replace("1 error, ", "1 warning, ").replace("error     shipping", "warning   shipping")
    may_be_one = (
        "group.instance.id shipping-2 is taken over again and again: by several processes that use it, or by one that"
    )
    return re.sub(r"several processes use .*", f"{may_be_one} keeps restarting", text)


def took_over_at_once(bootstrap, group_id):
    """Whether two takeovers of an instance id in the log of the group lie less than 200 ms apart."""
    with connect(bootstrap, timeout_ms=60_000) as cluster:
        records = GroupRecordTail(cluster, [group_id]).read_back(cluster.deadline)[group_id]
    taken = []
    for before, after in pairwise(decoded(group_id, records)):
        ids = {member.group_instance_id: member.member_id for member in before.group.members}
        if any(ids.get(one.group_instance_id, one.member_id) != one.member_id for one in after.group.members):
            taken.append(after.at_ms)
    assert len(taken) >= 3, taken
    return any(later - earlier < 200 for earlier, later in pairwise(taken[:3]))


@pytest.fixture(scope="module")
def kafka():
    """A broker with the session timeout that brokers have by default."""
    properties = {"group.consumer.session.timeout.ms": "45000", "group.consumer.heartbeat.interval.ms": "1000"}
    return shared_broker(properties=properties)


@pytest.fixture(scope="module")
def played(request, kafka, tmp_path_factory):
    """The runbooks that are to be tested, three at a time, because most of a runbook is waiting: {name: (book, future)}."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.fspath == request.fspath and hasattr(item, "callspec")
    }
    books = {name: Book.read(DOCS / f"{name}.md") for name in wanted}
    topics = {book.fleet["topic"]: book.fleet["partitions"] for book in books.values()}
    kafka.create_topics(topics)
    wait_coordinator_knows(kafka.bootstrap, topics)
    with ThreadPoolExecutor(3) as pool:
        futures = {
            name: pool.submit(play, book, kafka.bootstrap, tmp_path_factory.mktemp(name))
            for name, book in books.items()
        }
    return {name: (books[name], future) for name, future in futures.items()}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.scenes
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sized(PLAYED_EACH_TIME, BOOKS))
def test_the_book_shows_what_happens(played, kafka, name):
    book, future = played[name]
    outputs = future.result()
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        for step, output in zip(book.steps, outputs, strict=True):
            step.output = output
        book.path.write_text(book.text())
        return
    same = comparable_of_framework if "framework" in book.fleet else comparable
    for step, output in zip(book.steps, outputs, strict=True):
        assert same(step, output) == same(step, expected(step, kafka)), step.command


def test_books_do_not_share_what_they_play_with():
    """They are played on one broker."""
    fleets = [Book.read(DOCS / f"{name}.md").fleet for name in BOOKS]
    for key in ("group", "topic"):
        named = [fleet[key] for fleet in fleets]
        assert len(set(named)) == len(named)


def test_the_index_has_every_page_and_links_lead_somewhere():
    pages = {path.name: path.read_text() for path in DOCS.glob("*.md")}
    linked = set(re.findall(r"\]\(([\w-]+\.md)", pages["README.md"]))
    assert linked == set(pages) - {"README.md"}
    for name, text in pages.items():
        for link in re.findall(r"\]\((?!http)([^)#]+)", text):
            assert (DOCS / link).exists(), (name, link)


@pytest.mark.parametrize("name", BOOKS)
def test_each_book_says_what_a_night_shift_asks(name):
    headings = re.findall(r"^## (.*)", (DOCS / f"{name}.md").read_text(), re.MULTILINE)
    assert {"Do", "You should see", "Go back"} <= set(headings)
    assert any(heading.startswith("Look") for heading in headings)
    text = (DOCS / f"{name}.md").read_text()
    assert "**Stop**" in text or "**Do not" in text
    assert text.count("$ kgm ") > 5
