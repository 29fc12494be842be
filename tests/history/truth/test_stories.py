"""The causes of random histories of real clients, another one each time: a small part of `bench/causes.py`.

`--seed` plays others."""

import math
import random

import pytest

from kgm.history.causes.session_timeouts import GivenSessions, no_session
from kgm.history.derive import derive
from tests.history.truth.judge import Judge
from tests.history.truth.scores import PROMISED, Scores
from tests.history.truth.stories import play
from tests.kafka.versions import VERSIONS
from tests.selection import first_seed

pytestmark = [pytest.mark.long, pytest.mark.scenes, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
GROUPS, SECONDS = 12, 45
#: A verdict that keeps its promise fails the test less often than this.
CHANCE = 1e-4


def chance_of_so_many(wrong, total, share):
    """The probability that so many of the verdicts are wrong, or more, if each is with this probability."""
    fewer = sum(math.comb(total, count) * share**count * (1 - share) ** (total - count) for count in range(wrong))
    return 1 - fewer


@pytest.fixture(scope="module")
def run():
    # 3.9 with the new coordinator has the consumer protocol as a preview only.
    version = random.Random(first_seed()).choice([each for each in VERSIONS if "+" not in each])
    print(f"Kafka {version}")
    return play(version=version, seed=first_seed(), groups=GROUPS, seconds=SECONDS)


@pytest.mark.parametrize("given", [False, True], ids=["the log alone", "session timeouts given"])
def test_verdicts_are_right_as_often_as_is_promised(run, given):
    sessions = GivenSessions(by_group=run.sessions) if given else no_session
    tables = derive(run.raw, session_of_group=sessions).tables
    rebalances, ends = Judge(run.acts, run.names, run.log, replaced_unseen=run.replaced_unseen).judge(tables)
    for verdicts in rebalances, ends:
        scores = Scores()
        for each in verdicts:
            scores.verdict(each.cause, each.confidence, each.right, about=(each.act, each.row))
        print(scores.table())
        certain, likely = scores.counts("certain"), scores.counts("likely")
        assert not certain[False], scores.wrong
        assert chance_of_so_many(likely[False], likely.total(), 1 - PROMISED["likely"]) > CHANCE, scores.wrong
    assert len(rebalances) > 2 * GROUPS
    assert len(run.failed) < GROUPS / 2, run.failed


def test_what_was_done_is_found(run):
    tables = derive(run.raw, session_of_group=GivenSessions(by_group=run.sessions)).tables
    scores = Scores()
    for act, is_found in Judge(run.acts, run.names, run.log, replaced_unseen=run.replaced_unseen).recall(tables):
        scores.recall(act.expected, is_found)
    print(scores.table())
    assert scores.done["join"][True] >= GROUPS / 2
    assert scores.done["join"][False] <= 0.1 * scores.done["join"].total()
