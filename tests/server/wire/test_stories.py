"""Every story on a real broker and on `kgm serve`, in some of its versions, with `--long` in all; and the stories themselves: all
versions, all error codes."""

import ast
import asyncio
import concurrent.futures
import contextlib
import re

import pytest

from kgm.model.errors import ErrorCode
from tests import ROOT
from tests.selection import sized
from tests.server.wire import story
from tests.server.wire.brokers import SETTINGS, real, served
from tests.server.wire.play import Server, play_all
from tests.server.wire.record import differences
from tests.server.wire.requests import INFO, VERBS

STORIES = story.load()
#: Of the runs between the newest and the oldest versions of a story, so many-th is played.
EVERY = sized(8, 1)
THEMES = sorted({one.theme for one in STORIES})

_LOG = "tests/coordinator/classic, and the lockstep with Kafka's coordinator"
#: Error codes that kgm/coordinator knows and no story can bring about: why, or where they are tested.
NOT_IN_A_STORY = {
    "COORDINATOR_NOT_AVAILABLE": f"of a group that is Dead, or of a log that fails: {_LOG}",
    "COORDINATOR_LOAD_IN_PROGRESS": "while a coordinator moves: tests/server/cluster/test_failover.py",
    **dict.fromkeys(
        (
            "INVALID_FETCH_SIZE",
            "KAFKA_STORAGE_ERROR",
            "MESSAGE_TOO_LARGE",
            "NETWORK_EXCEPTION",
            "NOT_ENOUGH_REPLICAS",
            "NOT_LEADER_OR_FOLLOWER",
            "RECORD_LIST_TOO_LARGE",
            "REQUEST_TIMED_OUT",
        ),
        f"of a log that fails; clients are told another one: {_LOG}",
    ),
}


def chosen():
    """(story, number of the run) of what is played: the newest versions, the oldest, some between, which are others in the
    next story, and whatever it takes so that every version of every API is sent."""
    runs = [(one.name, number, one.runs()) for one in STORIES for number in range(len(one.runs()))]
    first = [number in (0, len(of_story) - 1) or at % EVERY == 0 for at, (_, number, of_story) in enumerate(runs)]
    sent = set()
    for is_wanted in (True, False):
        for at, (_, number, of_story) in enumerate(runs):
            if first[at] is is_wanted and (is_wanted or not sent >= of_story[number].items()):
                first[at] = True
                sent |= of_story[number].items()
    return {(name, number) for (name, number, _), is_one in zip(runs, first, strict=True) if is_one}


PLAYED = chosen()


def play(start):
    """The answers to all stories, from one server of each kind."""

    async def play_on(places):
        found = {}
        servers = {kind: await Server.meet(address) for kind, address in places.items()}
        for kind, server in servers.items():  # one after the other: time matters in those of the slow one
            stories = [one for one in STORIES if one.broker == kind]
            found |= await play_all(stories, server, is_played=lambda one, run: (one.name, run) in PLAYED)
        return found

    with contextlib.ExitStack() as running, concurrent.futures.ThreadPoolExecutor() as pool:
        starting = {kind: pool.submit(lambda kind=kind: running.enter_context(start(kind))) for kind in SETTINGS}
        return asyncio.run(play_on({kind: place.result() for kind, place in starting.items()}))


@pytest.fixture(scope="module")
def kafkas():
    return play(real)


@pytest.fixture(scope="module")
def ours():
    return play(served)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("theme", THEMES)
def test_kafka_answers_as_it_is_written(theme, kafkas):
    """The answers in the stories are a real broker's. `python -m tests.server.wire.record` writes them again."""
    found = [text for one in STORIES if one.theme == theme for text in differences(one, kafkas[one.name])]
    assert not found, "\n\n".join(found)


@pytest.mark.few(9)
@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_kgm_answers_as_kafka_does(theme, ours):
    found = [text for one in STORIES if one.theme == theme for text in differences(one, ours[one.name], of_kgm=True)]
    assert not found, "\n\n".join(found)


# -- the stories themselves


def test_there_are_many_and_each_has_answers():
    assert len(STORIES) >= 150
    assert [one.name for one in STORIES if not any(step.answers for step in one.steps)] == []


@pytest.mark.parametrize("theme", THEMES)
def test_a_file_is_written_as_it_was_read(theme):
    text = (story.FOLDER / f"{theme}.txt").read_text()
    assert story.text_of(story.parse(theme, text)) == text


def test_every_version_of_every_api_is_sent():
    sent = {verb.api: set() for verb in VERBS.values()}
    for one in STORIES:
        for number, run in enumerate(one.runs()):
            for api, version in run.items() if (one.name, number) in PLAYED else ():
                sent[api].add(version)
    assert sent == {api: set(range(INFO[api].min_version, INFO[api].max_version + 1)) for api in sent}


def error_codes_in(folder):
    """The members of ErrorCode that the code of a package names."""
    found = set()
    for path in (ROOT / "kgm" / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCode":
                found.add(node.attr)
    return found & ErrorCode.__members__.keys()


def test_every_error_code_occurs_in_a_story():
    told = "\n".join(answer for one in STORIES for step in one.steps for answer in step.answers)
    missing = {name for name in error_codes_in("coordinator") if not re.search(rf"\b{name}\b", told)}
    assert missing == NOT_IN_A_STORY.keys()
