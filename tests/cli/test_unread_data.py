"""Committed offsets that could not be read are not offsets that nobody has committed, and topics that could not be
described are not topics that do not exist."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.operations.bounce.group import live_groups
from kgm.operations.export.collector import ExportRequest, GroupCollector
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.cli.runner import kgm, kgm_in_time
from tests.client.faults import BlackHole, Edit, FaultProxy, Pass, ResetBefore
from tests.client.joiners import form_group, leave_dead_group
from tests.kafka.records import produce

pytestmark = pytest.mark.slow

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


EXPORT = ("export", "dead", "--findings-every", "0s", "--timeout", "3s")


def samples(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for row in family.samples:
            found.setdefault(row.name, []).append((row.labels, row.value))
    return found


@pytest.mark.parametrize("api", [ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS])
def test_metrics_without_lag_count_the_requests_that_failed(proxy, api, tmp_path):
    """The group has been described, so part of the work is done (exit code 7)."""
    leave_dead_group(proxy.port, "dead", "orders")
    whole = kgm(*EXPORT, "-b", proxy.bootstrap)
    assert (whole.code, whole.err) == (0, "")
    assert "kgm_collection_errors" not in samples(whole.out)
    proxy.always(api, ResetBefore())
    run = kgm(*EXPORT, "-b", proxy.bootstrap)
    found = samples(run.out)
    assert run.code == 7
    assert found["kgm_up"] == [({}, 1)]
    assert found["kgm_collection_errors"] == [({"code": "UNREACHABLE"}, 1)]
    assert "kgm_partition_lag" in samples(whole.out)
    assert "kgm_partition_lag" not in found
    as_json = kgm(*EXPORT, "-o", "json", "-b", proxy.bootstrap)
    assert (as_json.code, [one["code"] for one in json.loads(as_json.out)["errors"]]) == (7, ["UNREACHABLE"])
    path = tmp_path / "kgm.prom"
    assert kgm(*EXPORT, "--textfile", str(path), "-b", proxy.bootstrap).code == 7
    assert 'kgm_collection_errors{code="UNREACHABLE"} 1.0' in path.read_text().splitlines()


def test_a_collection_has_only_its_own_errors(proxy):
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        collector = GroupCollector(cluster=cluster, request=ExportRequest(names=["g"]))
        for fault, codes in ((Pass(), []), (Edit(loading), ["COORDINATOR_LOAD_IN_PROGRESS"]), (Pass(), [])):
            proxy.always(ApiKey.OFFSET_FETCH, fault)
            assert [one.json_code for one in collector.collect().errors] == codes


def test_no_lag_is_not_waited_for_with_a_wrong_reason(proxy):
    proxy.always(ApiKey.OFFSET_FETCH, Edit(loading))
    why = "lag=0: unknown lag, because the committed offsets could not be read"
    run = kgm_in_time(lambda run: why in run.err, "wait", "g", "--for", "lag=0", "-b", proxy.bootstrap)
    assert run.code == 7
    assert why in run.err


@pytest.mark.parametrize(
    ("api", "condition", "code"),
    [
        (ApiKey.FIND_COORDINATOR, "lag<=0", 5), (ApiKey.DESCRIBE_GROUPS, "lag<=0", 5),
        (ApiKey.DESCRIBE_GROUPS, "empty", 5), (ApiKey.OFFSET_FETCH, "lag<=0", 7), (ApiKey.LIST_OFFSETS, "lag<=0", 7),
        (ApiKey.OFFSET_FETCH, "members=3", 8),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_broker_does_not_answer_is_not_known_to_be_unmet(proxy, committed, api, condition, code):
    proxy.always(api, ResetBefore())
    words = ("wait", committed, "--for", condition, "-b", proxy.bootstrap, "-o", "json")
    run = kgm_in_time(lambda run: run.code == code, *words)
    assert run.code == code, run.err
    assert json.loads(run.out)["data"]["met"] is False


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


def test_a_removal_predicts_nothing_for_it(proxy):
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


def half(answer):
    """Every second offset cannot be read."""
    for group in answer.groups:
        for topic in group.topics:
            for row in topic.partitions[1::2]:
                row.error_code, row.committed_offset = ErrorCode.UNKNOWN_SERVER_ERROR, -1


@pytest.fixture(scope="module")
def committed(server):
    """A group with a lag of 4 and 3."""
    (joiner,) = form_group(server, "left", ["gone"], "orders")
    assert [joiner.commit(partition, 0) for partition in (0, 1)] == [0, 0]
    joiner.close()
    produce(server.bootstrap, "orders", [b"x"] * 7, [0, 1])
    return "left"


def listed(proxy, group_id):
    """Its lag, and what is said."""
    run = kgm("list", "--lag", "--match", group_id, "-b", proxy.bootstrap, "-o", "json")
    (group,) = json.loads(run.out)["data"]["groups"]
    return group["lag"], run.err


def test_a_part_of_the_committed_offsets_does_not_pass_for_all(proxy, committed):
    assert listed(proxy, committed) == (7, "")
    proxy.always(ApiKey.OFFSET_FETCH, Edit(half))
    lag, err = listed(proxy, committed)
    assert lag is None
    assert "the committed offsets of group 'left' could not be read (UNKNOWN_SERVER_ERROR)" in err


def endless(answer):
    for topic in answer.topics:
        if topic.name == "orders":
            for one in topic.partitions:
                if one.partition_index == 1:
                    one.error_code, one.offset = ErrorCode.OFFSET_NOT_AVAILABLE, -1


def leaderless(answer):
    for topic in answer.topics:
        if topic.name == "orders":
            topic.partitions[1].leader_id = -1


@pytest.mark.parametrize(
    ("api", "fault", "why"),
    [
        (ApiKey.LIST_OFFSETS, Edit(endless), "orders[1]' could not be read (OFFSET_NOT_AVAILABLE)"),
        (ApiKey.LIST_OFFSETS, ResetBefore(), "orders[0]', 'orders[1]' could not be read ("),
        (ApiKey.METADATA, Edit(leaderless), "orders[1]' could not be read (no leader)"),
    ],
)
def test_an_end_that_could_not_be_read_is_said(proxy, committed, api, fault, why):
    proxy.always(api, fault)
    lag, err = listed(proxy, committed)
    assert lag is None
    assert f"warning: the end of '{why}" in err
    assert err.rstrip().endswith("its lag is unknown")


def refused(code):
    def change(answer):
        for row in answer.results:
            row.error_code, row.configs = code, []

    return Edit(change)


ASSUMED = "Kafka's defaults are assumed for limits of session timeouts and group sizes"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "cannot be read without DESCRIBE_CONFIGS on the cluster"),
        (refused(ErrorCode.UNKNOWN_SERVER_ERROR), "could not be read (UNKNOWN_SERVER_ERROR)"),
        (ResetBefore(), "could not be read ("),
    ],
)
@pytest.mark.parametrize("command", ["simulate-bounce", "drain"])
def test_settings_that_could_not_be_read_are_assumed_aloud(proxy, command, fault, why):
    words = ("simulate-bounce", "g", "--all") if command == "simulate-bounce" else ("drain", "--client-id", "*")

    def caveats():
        document = json.loads(kgm(*words, "--draws", "1", "-b", proxy.bootstrap, "-o", "json").out)["data"]
        return [text for one in document.get("scenarios") or document["groups"] for text in one["caveats"]]

    assert not [text for text in caveats() if ASSUMED in text]
    proxy.always(ApiKey.DESCRIBE_CONFIGS, fault)
    assert [text for text in caveats() if text.startswith(f"the broker's settings {why}") and ASSUMED in text]


def test_it_is_known_of_each_group_of_a_broker_that_is_asked_once(server, proxy):
    (joiner,) = form_group(server, "second", ["c"], "orders")
    groups = ["g", "second"]
    with closing(joiner), connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        for is_unread in (False, True):
            found = live_groups(cluster, [cluster.describe_group(one) for one in groups])
            assert {one.snapshot.group_id: one.has_unread_settings for one in found} == dict.fromkeys(groups, is_unread)
            assert [any(ASSUMED in text for text in one.caveats) for one in found] == [is_unread] * 2
            proxy.always(ApiKey.DESCRIBE_CONFIGS, refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


RESTARTS = {
    "simulate-bounce": ("simulate-bounce", "g", "--all", "--fail-if-moves", "0", "--fail-if-rebalances", "0"),
    "drain": ("drain", "g", "--client-id", "*", "--restart-time", "2s", "--fail-if-moves", "0"),
    "plan": ("plan", "g", "--keep-consuming", "10%", "--restart-time", "2s"),
    "rollout": ("rollout", "g", "--all", "--exec", "true", "--dry-run", "--fail-if-rebalances", "0"),
}


@pytest.mark.parametrize("command", RESTARTS)
def test_a_group_may_be_full_where_the_limit_could_not_be_read(proxy, command):
    words = (*RESTARTS[command], "-b", proxy.bootstrap)
    assert kgm(*words).code == 0
    proxy.always(ApiKey.DESCRIBE_CONFIGS, refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    run = kgm(*words)
    assert run.code == (6 if command == "rollout" else 7)
    assert "group.max.size" in run.out + run.err
    assert kgm(*words, "--set", "group.max.size=3").code == 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ResetBefore(), 7), (refused(ErrorCode.UNKNOWN_SERVER_ERROR), 7),
        (refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), 0),
    ],
)  # fmt: skip
def test_doctor_is_not_green_if_the_broker_did_not_answer_for_its_settings(proxy, fault, code):
    """A right that nothing else needs may be missing."""
    words = ("doctor", "g", "--window", "0s", "--fail-on", "warning", "--timeout", "5s", "-b", proxy.bootstrap)
    assert kgm(*words).code == 0
    proxy.always(ApiKey.DESCRIBE_CONFIGS, fault)
    run = kgm(*words)
    assert run.code == code, run.err
    assert ("2 checks could not run: group-full, rejoins-refused" in run.err) is (code == 7)


def test_doctor_did_not_check_what_was_not_read(proxy, committed):
    words = ("doctor", committed, "--window", "0s", "--timeout", "3s", "-b", proxy.bootstrap, "-o", "json")

    def skipped():
        data = json.loads(kgm(*words).out)["data"]
        return {one["why"]: set(one["checks"].split(", ")) for one in data["skipped"]}

    whole = skipped()
    proxy.always(ApiKey.LIST_OFFSETS, Edit(endless))
    (why,) = skipped().keys() - whole.keys()
    assert why == "the end of 'orders[1]' could not be read (OFFSET_NOT_AVAILABLE)"
    assert {"empty-with-lag", "stalled-owner", "committed-beyond-end"} <= skipped()[why]
    proxy.always(ApiKey.OFFSET_FETCH, Edit(loading))
    assert "offsets-of-other-topics" in skipped()[WHY.replace("'g'", "'left'").partition(": ")[0]]


def no_brokers(error_code):
    def change(answer):
        answer.error_code, answer.brokers = error_code, []

    return Edit(change)


@pytest.mark.parametrize(
    ("error_code", "fact"),
    [
        (ErrorCode.NONE, "Metadata names none"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "Metadata answered UNKNOWN_SERVER_ERROR"),
    ],
)
@pytest.mark.parametrize("words", [("list",), ("config", "test"), ("describe", "--all-groups")], ids=" ".join)
def test_a_cluster_without_brokers_is_not_one_without_groups(proxy, words, error_code, fact):
    proxy.always(ApiKey.METADATA, no_brokers(error_code))
    run = kgm(*words, "-b", proxy.bootstrap, "--timeout", "2s")
    assert run.code == (1 if error_code else 5)
    assert "error: the cluster does not report its brokers" in run.err
    assert fact in run.err
