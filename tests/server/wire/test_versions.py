"""Stories of classic groups on brokers of earlier versions and on `kgm serve --kafka-version`: both answer the same.

What earlier brokers answer is not written down: a broker plays the stories each time."""

import asyncio

import pytest

from tests.selection import sized
from tests.server.wire import story
from tests.server.wire.brokers import real_of, served
from tests.server.wire.play import HUNG_UP, Server, play_all

THEMES = ("heartbeat", "join", "leave", "static", "sync", "groups")
STORIES = [one for one in story.load() if one.theme in THEMES and one.broker == "quick"][:: sized(12, 1)]
VERSIONS = sized(["2.8.2"], ["2.4.1", "2.8.2", "3.3.2", "3.6.2", "3.9.1"])
#: Brokers before 3.1 take a client id that is null for the word.
WORDED = {"2.4.1": {"join: A null client id"}, "2.8.2": {"join: A null client id"}}
#: A run counts if the broker speaks the versions of its requests; of so many it does, at least.
MOST_RUNS = sized(60, 700)


def play(address):
    async def on_server():
        return await play_all(STORIES, await Server.meet(address))

    return asyncio.run(on_server())


def is_spoken(answers):
    """Whether a broker knew all requests of a run, in the versions that they had."""
    return not isinstance(answers, BaseException) and all(HUNG_UP not in lines for _, lines in answers)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_kgm_answers_as_a_broker_of_the_version(version):
    with real_of(version) as address:
        theirs = play(address)
    with served("quick", "--kafka-version", version) as address:
        ours = play(address)
    differences, spoken = [], 0
    for one in STORIES:
        for answers, kgms in zip(theirs[one.name], ours[one.name], strict=True):
            if not is_spoken(answers) or one.name in WORDED.get(version, ()):
                continue
            spoken += 1
            if isinstance(kgms, BaseException):
                differences.append(f"{one.name}: {kgms!r}")
                continue
            steps = zip(one.steps, answers, kgms, strict=True)
            lines = [f"{step.line}\n  Kafka {kafka}\n  kgm   {kgm}" for step, kafka, kgm in steps if kafka != kgm]
            differences += [f"{one.name}: {line}" for line in lines[:1]]
    assert not differences, "\n\n".join(differences[:20])
    assert spoken >= MOST_RUNS
