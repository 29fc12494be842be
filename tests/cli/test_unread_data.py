"""Committed offsets that could not be read are not offsets that nobody has committed, and topics that could not be
described are not topics that do not exist."""

from __future__ import annotations

import json

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.client.faults import BlackHole, Edit, FaultProxy
from tests.client.joiners import form_group

WHY = "the committed offsets of group 'g' could not be read (COORDINATOR_LOAD_IN_PROGRESS): offsets and lag are unknown"


def loading(answer):
    for group in answer.groups:
        group.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture(scope="module")
def server():
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"orders": 2}, settings=settings) as running:
        joiners = form_group(running, "g", ["a", "b"], "orders")
        yield running
        for joiner in joiners:
            joiner.close()


@pytest.fixture
def proxy(server):
    host, _, port = server.bootstrap.rpartition(":")
    with FaultProxy((host, int(port))) as running:
        yield running


@pytest.mark.parametrize(
    "words", [("describe", "g", "--offsets"), ("describe", "g", "-o", "json"), ("doctor", "g", "--window", "0s")]
)
def test_it_is_said(proxy, words):
    assert WHY not in kgm(*words, "-b", proxy.bootstrap).err
    proxy.always(ApiKey.OFFSET_FETCH, Edit(loading))
    run = kgm(*words, "-b", proxy.bootstrap, "--timeout", "3s")
    assert f"warning: {WHY}" in run.err.splitlines()
    if "json" in words:
        (group,) = json.loads(run.out)["data"]["groups"]
        assert [member["lag"] for member in group["members"]] == [None, None]


def test_a_broker_that_does_not_answer(proxy):
    proxy.always(ApiKey.OFFSET_FETCH, BlackHole())
    run = kgm("describe", "g", "--offsets", "-b", proxy.bootstrap, "--timeout", "2s")
    assert run.code == 0
    assert "warning: the committed offsets of group 'g' could not be read (" in run.err


def test_no_lag_is_not_waited_for_with_a_wrong_reason(proxy):
    proxy.always(ApiKey.OFFSET_FETCH, Edit(loading))
    run = kgm("wait", "g", "--for", "lag=0", "--timeout", "1s", "-b", proxy.bootstrap)
    assert run.code == 8
    assert "lag=0: unknown lag, because the committed offsets could not be read" in run.err


def undescribed(error_code):
    def change(answer):
        for topic in answer.topics:
            if topic.name == "orders":
                topic.error_code, topic.partitions = error_code, []

    return Edit(change)


LEADERLESS = undescribed(ErrorCode.LEADER_NOT_AVAILABLE)
UNDESCRIBED = (
    "topic 'orders' could not be described (LEADER_NOT_AVAILABLE): its partition count, offsets and lag are unknown"
)


@pytest.mark.parametrize(
    "words", [("describe", "g"), ("doctor", "g", "--window", "0s"), ("simulate-bounce", "g", "--all")]
)
def test_a_topic_that_could_not_be_described(proxy, words):
    assert "could not be described" not in kgm(*words, "-b", proxy.bootstrap).err
    proxy.always(ApiKey.METADATA, LEADERLESS)
    run = kgm(*words, "-b", proxy.bootstrap)
    assert f"warning: {UNDESCRIBED}" in run.err.splitlines()
    assert "missing-topics" not in run.out


def test_a_topic_that_does_not_exist_has_been_described(proxy):
    proxy.always(ApiKey.METADATA, undescribed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    run = kgm("doctor", "g", "--window", "0s", "-b", proxy.bootstrap)
    assert "could not be described" not in run.err
    assert "missing-topics" in run.out


def test_a_removal_foretells_nothing_of_it(proxy):
    words = ("remove-members", "g", "-i", "a", "--dry-run", "--assume-stopped", "--guard-window", "50ms")
    assert "orders[0] a -> b" in kgm(*words, "-b", proxy.bootstrap).out
    proxy.always(ApiKey.METADATA, LEADERLESS)
    run = kgm(*words, "-b", proxy.bootstrap)
    assert "no consumer" not in run.out
    assert "which partitions will move is not known: topic 'orders' could not be described" in run.out + run.err


def test_a_prediction_that_rests_on_assumed_partitions_is_not_exact(proxy):
    words = ("simulate-bounce", "g", "-i", "a", "--restart-time", "60s", "--session-timeout", "45s", "-o", "json")

    def exact():
        return [one["exact"] for one in json.loads(kgm(*words, "-b", proxy.bootstrap).out)["data"]["scenarios"]]

    assert exact() == [True]
    proxy.always(ApiKey.METADATA, LEADERLESS)
    assert exact() == [False]
