"""Every runbook does what it says: its commands are run against a real Kafka, and print what the page shows."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.docs.book import DOCS, Book, play
from tests.kafka.beaters import wait_coordinator_knows
from tests.kafka.broker import KafkaCluster

BOOKS = sorted(path.stem for path in DOCS.glob("*.md") if "<!-- fleet:" in path.read_text())


def loose(step, text):
    """Generations hang on who joined when; seconds of predictions and findings differ a little."""
    text = re.sub(r"\bgeneration \d+", "generation 1", text)
    if "simulate-bounce" in step.command or "doctor" in step.command:
        text = re.sub(r" +", " ", re.sub(r"\b(\d+m)?\d+(\.\d+)?(s|ms|m)\b", "1.0s", text))
    return text


@pytest.fixture(scope="module")
def kafka():
    """A broker with the timeouts of a broker that people have."""
    properties = {"group.consumer.session.timeout.ms": "45000", "group.consumer.heartbeat.interval.ms": "1000"}
    with KafkaCluster(properties=properties) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def played(request, kafka, tmp_path_factory):
    """The books that are asked for, three at a time, because most of a runbook is waiting: {name: outputs or error}."""
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
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BOOKS)
def test_the_book_shows_what_happens(played, name):
    book, future = played[name]
    outputs = future.result()
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        for step, output in zip(book.steps, outputs, strict=True):
            step.output = output
        book.path.write_text(book.text())
        return
    for step, output in zip(book.steps, outputs, strict=True):
        assert loose(step, output) == loose(step, step.output), step.command


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
