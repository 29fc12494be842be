"""What public reports and operators ask, played on a real Kafka, and asked: each answer is on docs/questions.md, and says
what the scene did. The situations wait side by side. `KGM_WRITE_DOCS=1` writes the page."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from kgm.server import serve_in_thread
from tests.docs.book import DOCS
from tests.kafka.heartbeat_group import wait_coordinator_knows
from tests.kafka.members import JavaMembers, RdMembers
from tests.questions.situation import Situation, block, blocks_of, comparable, page
from tests.questions.situations import SITUATIONS
from tests.questions.stage import Answer, Stage

PAGE = DOCS / "questions.md"
_AT_ONCE = 12


@pytest.fixture(scope="module")
def played(request, tmp_path_factory):
    """{situation: future of its answers}, many at the same time."""
    wanted = [one for one in SITUATIONS if any(f"[{one.name}]" in item.name for item in request.session.items)]
    with contextlib.ExitStack() as stack:
        clusters = {on: _cluster(request, on, stack) for on in sorted({one.on for one in wanted})}
        for on, cluster in clusters.items():
            topics = {one.name + end: count for one in wanted if one.on == on for end, count in one.topics.items()}
            if topics and on == "embedded":
                for name, count in topics.items():
                    cluster.create_topic(name, count)
            elif topics:
                cluster.create_topics(topics)
                wait_coordinator_knows(cluster.bootstrap, topics)
        members = {}
        for on, cluster in clusters.items():
            java, rd = (stack.enter_context(owner(cluster.bootstrap)) for owner in (JavaMembers, RdMembers))
            members[on] = {"java": java, "rd": rd, "kafka": cluster}
            if on != "embedded":
                members[on]["admin"] = cluster.admin()
        pool = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        longest_first = sorted(wanted, key=lambda one: not one.waits)
        yield {
            one.name: pool.submit(_answers, one, folder=tmp_path_factory.mktemp(one.name), **members[one.on])
            for one in longest_first
        }


def _cluster(request, on, stack):
    if on == "embedded":
        settings = {"group.initial.rebalance.delay.ms": 0, "offsets.retention.check.interval.ms": 50}
        return stack.enter_context(serve_in_thread(settings=settings))
    return request.getfixturevalue(on)


def _answers(situation: Situation, **given) -> list[Answer]:
    with contextlib.ExitStack() as stack:
        stage = Stage(name=situation.name, stack=stack, **{"admin": None, **given})
        situation.scene(stage)
        return stage.ask(situation.commands, situation.says)


@pytest.fixture(scope="module")
def shown():
    return blocks_of(PAGE.read_text(), SITUATIONS)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.scenes
@pytest.mark.timeout(300)
@pytest.mark.few(14)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)
def test_the_answer(played, shown, situation, record_property):
    answers = played[situation.name].result()
    told = "\n".join(one.raw for one in answers)
    record_property("seconds", [round(one.seconds, 2) for one in answers])
    assert [text for text in situation.says if text not in told] == [], told
    assert [text for text in situation.omits if text in told] == [], told
    assert tuple(one.code for one in answers) == tuple(situation.codes or [0] * len(answers)), told
    now = block(answers)
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        if comparable(now, situation) != comparable(shown[situation.name], situation):
            shown[situation.name] = now
        PAGE.write_text(page(SITUATIONS, shown))
        return
    assert comparable(now, situation) == comparable(shown[situation.name], situation)
