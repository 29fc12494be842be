"""Consumer groups (KIP-848) in a cluster without sockets: where they are coordinated, what is kept of them, topics under
them, configurations. What the requests do is for tests/coordinator to say, and for the stories of tests/server/wire."""

import sys
from base64 import urlsafe_b64decode
from dataclasses import fields

import pytest

from kgm.java import re2j
from kgm.model.errors import ErrorCode, KgmError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kgm.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kgm.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.server.cluster.topics import NO_ID, topic_id
from kgm.server.contract.exchange import CloseConnection, ResponseFrame
from kgm.server.contract.limits import Limits
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from tests.records import real_logs
from tests.server.broker_driver import Driver
from tests.server.disk import Disk, fail_sync

QUICK = {"group_consumer_assignment_interval_ms": 0}
GROUP, BROKER, TOPIC = 32, 4, 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def driver_with(topics=None, **settings):
    return Driver({"t": 3} if topics is None else topics, **QUICK, **settings)


@pytest.fixture
def disk(tmp_path):
    found = Disk(tmp_path / "data")
    yield found
    found.kill()


def beat(member="m1", epoch=0, *, group="g", instance=None, topics=("t",), regex=None, owned=None):
    joins = epoch == 0
    rows = [TopicPartitions(topic_id=topic_id(name), partitions=list(held)) for name, held in (owned or {}).items()]
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        instance_id=instance,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=list(topics) if joins and topics is not None else None,
        subscribed_topic_regex=regex,
        topic_partitions=rows if joins or owned is not None else None,
    )


def assigned(answer):
    if answer.assignment is None:
        return None
    return {row.topic_id: row.partitions for row in answer.assignment.topic_partitions}


def commit(topic, *, member="m1", epoch=2, offset=5, group="g"):
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(topic_id=topic_id(topic), partitions=[row])],
    )


def described(driver, *groups, to=1):
    return driver.ask(ConsumerGroupDescribeRequest(group_ids=list(groups or ("g",))), to=to).groups


def grow(driver, name, count, **more):
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return driver.ask(CreatePartitionsRequest(topics=[wanted], **more)).results[0].error_code


def create(driver, name, count):
    wanted = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    return driver.ask(CreateTopicsRequest(topics=[wanted])).topics[0]


def delete(driver, *names):
    answer = driver.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names]))
    return [row.error_code for row in answer.responses]


# -- who answers


def test_a_member_joins_its_group_where_that_is_coordinated():
    driver = driver_with(brokers=3)
    group = next(
        f"g{n}" for n in range(50) if driver.cluster.placement.partition_for(f"g{n}") % 3 == 1
    )  # led by broker 2
    assert driver.ask(beat(group=group), to=1).error_code == ErrorCode.NOT_COORDINATOR
    assert described(driver, group, to=3)[0].error_code == ErrorCode.NOT_COORDINATOR
    joined = driver.ask(beat(group=group), to=2)
    assert (joined.error_code, joined.member_epoch, assigned(joined)) == (0, 2, {topic_id("t"): [0, 1, 2]})
    # What is wrong with the request itself is said first, everywhere.
    assert driver.ask(beat(group=group, epoch=-3), to=1).error_code == ErrorCode.INVALID_REQUEST


def test_a_broker_without_the_consumer_protocol_says_so():
    driver = driver_with(group_coordinator_rebalance_protocols="classic", brokers=2)
    answer = driver.ask(ApiVersionsRequest(client_software_name="kgm", client_software_version="1"))
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT in {row.api_key for row in answer.api_keys}
    assert answer.finalized_features == []
    assert {driver.ask(beat(), to=to).error_code for to in (1, 2)} == {ErrorCode.UNSUPPORTED_VERSION}


def test_member_ids_that_the_coordinator_makes_are_uuids_in_kafkas_writing():
    driver = driver_with()
    ids = {driver.ask(beat("", group=f"g{n}"), version=0).member_id for n in range(50)}
    assert len(ids) == 50
    assert all(len(urlsafe_b64decode(found + "==")) == 16 and not found.startswith("-") for found in ids)


def test_consumer_groups_count_as_groups():
    driver = driver_with(limits=Limits(max_groups=1))
    assert driver.ask(beat()).error_code == 0
    assert driver.ask(beat(group="h")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.ask(beat(epoch=-1))
    assert driver.cluster.shards.group_ids == {"g"}


def test_a_repeated_describe_is_bounded():
    driver = driver_with(limits=Limits(max_items=60))
    driver.ask(beat())
    assert len(described(driver, *["g"] * 7)) == 7
    ticket = driver.send(ConsumerGroupDescribeRequest(group_ids=["g"] * 8))  # each with 3 partitions, twice
    assert isinstance(driver.events[ticket], CloseConnection)


# -- what outlives a coordinator


def lived(driver):
    """A static member that is away, one that came with a regular expression, and one that has to give something up."""
    driver.ask(beat("s", instance="one"))
    driver.ask(beat("m1", topics=None, regex="t|u.*"))
    driver.advance(1)
    driver.ask(beat("m1", 3))
    driver.ask(beat("s", 2, owned={"t": [0, 1, 2]}))
    driver.ask(commit("t", member="s", epoch=2))
    driver.ask(beat("m2", topics=["u"]))
    driver.ask(beat("s", -2, instance="one"))
    return described(driver)[0]


def test_without_re2_a_regular_expression_is_refused_and_nothing_else(monkeypatch):
    """kgm may be installed without it where it has no wheel."""
    monkeypatch.setitem(sys.modules, "re2", None)
    re2j.is_installed.cache_clear()
    try:
        driver = driver_with({"t": 3})
        answer = driver.ask(beat("m1", topics=None, regex="t.*"))
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "google-re2" in answer.error_message
        assert driver.ask(beat("m2")).error_code == 0
    finally:
        re2j.is_installed.cache_clear()


def offsets(driver, *, version=10):
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
    answer = driver.ask(OffsetFetchRequest(groups=groups), version=version).groups[0]
    return {
        (row.name or row.topic_id, part.partition_index): part.committed_offset
        for row in answer.topics
        for part in row.partitions
    }


def test_a_group_is_the_same_after_its_coordinator_has_moved():
    driver = driver_with({"t": 3, "u": 2}, brokers=2)
    partition = driver.cluster.placement.partition_for("g")
    here = driver.cluster.placement[partition].leader
    there = 3 - here
    if here != 1:
        driver.move(partition, 1)
        driver.load()
        here, there = 1, 2
    before = lived(driver)
    driver.move(partition, there)
    assert driver.ask(beat("m1", 3), to=there).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    driver.load()
    assert described(driver, to=there) == [before]
    assert driver.ask(beat("m1", 9), to=here).error_code == ErrorCode.NOT_COORDINATOR
    back = driver.ask(beat("s2", instance="one"), to=there)
    assert back.error_code == 0
    driver.advance(44_999)
    assert len(described(driver, to=there)[0].members) == 3
    driver.advance(2)  # sessions started again when the group was loaded
    assert described(driver, to=there)[0].group_state == "Empty"


def test_a_group_is_the_same_after_a_restart(disk):
    driver = disk.start({"t": 3, "u": 2}, **QUICK)
    before = lived(driver)
    kept = offsets(driver)
    assert kept == {(topic_id("t"), 0): 5}
    driver = disk.start({"t": 3, "u": 2}, **QUICK)
    assert described(driver) == [before]
    assert offsets(driver) == kept
    # What a regular expression matches is known by then; a topic that comes later is seen all the same.
    create(driver, "u2", 1)
    driver.advance(11_000)
    epoch = next(row.member_epoch for row in before.members if row.member_id == "m1")
    epoch = driver.ask(beat("m1", epoch)).member_epoch
    driver.advance(1)
    assert driver.ask(beat("m1", epoch)).error_code == 0
    (after,) = described(driver)
    found = {row.topic_name for m in after.members for row in m.target_assignment.topic_partitions}
    assert (found, after.group_epoch > before.group_epoch) == ({"t", "u", "u2"}, True)


def test_groups_that_a_real_broker_has_left_are_served_as_it_served_them(disk):
    """Field by field, with the ids of its topics, whose folders are there, too."""
    kind = "plain"
    known = {row["groupId"]: row["describe"]["response"] for row in real_logs.groups(kind) if row["type"] == "consumer"}
    assert len(known) > 10
    for partition in real_logs.partitions(kind):
        real_logs.unpack(kind, partition, disk.folder / f"{OFFSETS_TOPIC}-{partition}")
    topics = set()
    for group in known.values():
        for member in group["members"]:
            for side in ("assignment", "targetAssignment"):
                for row in member[side]["topicPartitions"]:
                    topics.add(row["topicName"])
                    folder = disk.folder / f"{row['topicName']}-0"
                    folder.mkdir(exist_ok=True)
                    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {row['topicId']}")
    driver = disk.start(dict.fromkeys(topics, 20), partitions=len(real_logs.partitions(kind)))
    listed = {row.group_id: (row.group_state, row.group_type) for row in driver.ask(ListGroupsRequest()).groups}
    for group_id, kafkas in known.items():
        (ours,) = described(driver, group_id)
        assert as_kafka_tells(ours) == in_order(kafkas), group_id
        assert listed[group_id] == (kafkas["groupState"], "consumer")


def as_kafka_tells(group):
    def camel(name):
        head, *rest = name.split("_")
        return head + "".join(word.title() for word in rest)

    def told(value):
        if isinstance(value, list):
            return [told(item) for item in value]
        if isinstance(value, bytes):
            return value
        rows = getattr(type(value), "FIELDS", None)
        return value if rows is None else {camel(row[0]): told(getattr(value, row[0])) for row in rows}

    return in_order(told(group))


def in_order(group):
    """With lists sorted that Kafka takes from hash maps, and topic ids as bytes."""

    def partitions(side):
        rows = [(row["topicName"], _id(row["topicId"]), sorted(row["partitions"])) for row in side["topicPartitions"]]
        return sorted(rows)

    members = [
        {
            **member,
            "subscribedTopicNames": sorted(member["subscribedTopicNames"]),
            "assignment": partitions(member["assignment"]),
            "targetAssignment": partitions(member["targetAssignment"]),
        }
        for member in group["members"]
    ]
    return {**group, "members": sorted(members, key=lambda member: member["memberId"])}


def _id(found):
    return found if isinstance(found, bytes) else urlsafe_b64decode(found + "==")


# -- topics


def test_a_group_follows_its_topics():
    driver = driver_with({"t": 1})
    assert assigned(driver.ask(beat(topics=["t", "u"]))) == {topic_id("t"): [0]}
    assert create(driver, "u", 2).error_code == 0
    joined = driver.ask(beat("m1", 2))
    assert (joined.member_epoch, assigned(joined)) == (3, {topic_id("t"): [0], topic_id("u"): [0, 1]})
    assert grow(driver, "u", 3) == 0
    assert assigned(driver.ask(beat("m1", 3)))[topic_id("u")] == [0, 1, 2]
    assert driver.ask(commit("u", epoch=4), version=10).topics[0].partitions[0].error_code == 0
    assert delete(driver, "u") == [0]
    assert offsets(driver) == {}  # they went with the topic
    assert assigned(driver.ask(beat("m1", 4))) == {topic_id("t"): [0]}
    again = create(driver, "u", 1)
    assert again.topic_id not in (topic_id("u"), NO_ID)
    driver.ask(beat("m1", 4, owned={"t": [0]}))
    assert again.topic_id in assigned(driver.ask(beat("m1", epoch=0, topics=["t", "u"])))


def test_a_group_that_is_loading_when_topics_change_sees_them_afterwards():
    driver = driver_with({"t": 1}, brokers=2)
    partition = driver.cluster.placement.partition_for("g")
    driver.move(partition, 1)
    driver.load()
    driver.ask(beat(topics=["t", "u"]))
    driver.move(partition, 2)
    create(driver, "u", 1)
    driver.load()
    assert assigned(driver.ask(beat("m1", 2), to=2)) == {topic_id("t"): [0], topic_id("u"): [0]}


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error"),
    [
        ("t", 3, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 0, None, ErrorCode.INVALID_PARTITIONS),
        ("nope", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (OFFSETS_TOPIC, 60, None, ErrorCode.POLICY_VIOLATION),
        ("t", 5, 1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 5, 2, ErrorCode.NONE),
        ("t", 12, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_growth_that_cannot_be(name, count, assignments, error):
    driver = driver_with(limits=Limits(max_partitions=10))
    rows = None if assignments is None else [CreatePartitionsAssignment(broker_ids=[1])] * assignments
    topic = CreatePartitionsTopic(name=name, count=count, assignments=rows)
    assert driver.ask(CreatePartitionsRequest(topics=[topic])).results[0].error_code == error
    twice = driver.ask(CreatePartitionsRequest(topics=[topic, topic])).results
    assert [row.error_code for row in twice] == [ErrorCode.INVALID_REQUEST] * 2


def test_topics_are_deleted_by_name_or_id_and_once():
    driver = driver_with({"t": 3, "u": 1, "v": 1})
    by_id = DeleteTopicState(name=None, topic_id=topic_id("u"))
    both = DeleteTopicState(name="u", topic_id=topic_id("u"))
    wanted = [by_id, both, DeleteTopicState(name="u"), DeleteTopicState(name="v"), DeleteTopicState(name="v")]
    rows = driver.ask(DeleteTopicsRequest(topics=[*wanted, DeleteTopicState(name=None, topic_id=b"x" * 16)])).responses
    invalid = ErrorCode.INVALID_REQUEST
    errors = [row.error_code for row in rows]
    assert errors == [0, invalid, invalid, invalid, invalid, ErrorCode.UNKNOWN_TOPIC_ID]
    assert set(driver.cluster.topics.of_users()) == {"t", "v"}
    assert driver.ask(DeleteTopicsRequest(topic_names=["v", "w"]), version=1).responses[1].error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert driver.cluster.topics.total_partitions == 3
    internal = [DeleteTopicState(name=OFFSETS_TOPIC)]
    assert driver.ask(DeleteTopicsRequest(topics=internal)).responses[0].error_code == ErrorCode.POLICY_VIOLATION


def test_topics_and_their_deletions_survive_a_restart(disk):
    driver = disk.start({"t": 1})
    create(driver, "u", 2)
    assert grow(driver, "t", 2) == 0
    assert delete(driver, "u") == [0]
    driver = disk.start({})
    assert driver.cluster.topics.of_users() == {"t": 2}
    made = create(driver, "u", 1).topic_id
    assert made != topic_id("u")
    assert disk.start({}).cluster.topics.by_name("u").topic_id == made


def test_changes_of_topics_that_cannot_be_saved_are_undone(disk, monkeypatch):
    driver = disk.start({"t": 1, "u": 1})
    fail_sync(monkeypatch, "kgm.server.logs.data_directory.os.fsync")
    assert grow(driver, "t", 2) == ErrorCode.KAFKA_STORAGE_ERROR
    assert delete(driver, "t", "u") == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    monkeypatch.undo()
    assert driver.cluster.topics.of_users() == {"t": 1, "u": 1}
    assert create(driver, "w", 1).error_code == 0
    assert disk.start({}).cluster.topics.of_users() == {"t": 1, "u": 1, "w": 1}


# -- configurations


def alter(driver, values, *, group="g", operation=0, kind=GROUP, **more):
    rows = [AlterableConfig(name=name, config_operation=operation, value=value) for name, value in values.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=group, configs=rows)
    return driver.ask(IncrementalAlterConfigsRequest(resources=[resource], **more)).responses[0].error_code


def configs(driver, name="g", *, kind=GROUP, keys=None, synonyms=False):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    answer = driver.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)).results[0]
    return answer.error_code or {row.name: row.value for row in answer.configs}


def test_a_group_configuration_takes_effect_and_survives_a_restart(disk):
    driver = disk.start(**QUICK)
    assert alter(driver, {SESSION: "50000", HEARTBEAT: "6000"}) == 0
    assert alter(driver, {SESSION: "55000"}, validate_only=True) == 0
    assert configs(driver, keys=[SESSION, HEARTBEAT]) == {SESSION: "50000", HEARTBEAT: "6000"}
    assert driver.ask(beat()).heartbeat_interval_ms == 6_000
    assert driver.ask(beat(group="h")).heartbeat_interval_ms == 5_000
    driver.advance(45_001)
    assert [described(driver, group)[0].group_state for group in "gh"] == ["Stable", "Empty"]
    driver = disk.start(**QUICK)
    assert driver.ask(beat("m1", 2)).heartbeat_interval_ms == 6_000
    assert alter(driver, {HEARTBEAT: None}, operation=1) == 0
    assert configs(driver, keys=[SESSION, HEARTBEAT]) == {SESSION: "50000", HEARTBEAT: "5000"}
    assert alter(driver, {SESSION: ""}, operation=1) == 0
    assert driver.cluster.group_configs == {}


@pytest.mark.parametrize(
    ("values", "more", "error"),
    [
        ({SESSION: "44999"}, {}, ErrorCode.INVALID_CONFIG),
        ({SESSION: "60001"}, {}, ErrorCode.INVALID_CONFIG),
        ({SESSION: "long"}, {}, ErrorCode.INVALID_CONFIG),
        ({"consumer.assignment.interval.ms": "15001"}, {}, ErrorCode.INVALID_CONFIG),
        ({"share.session.timeout.ms": "45000"}, {}, ErrorCode.INVALID_CONFIG),
        ({SESSION: "46000"}, {"operation": 2}, ErrorCode.INVALID_CONFIG),
        ({SESSION: None}, {}, ErrorCode.INVALID_REQUEST),
        ({SESSION: "46000"}, {"group": ""}, ErrorCode.INVALID_REQUEST),
        ({"retention.ms": "1"}, {"kind": TOPIC, "group": "t"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_set(values, more, error):
    driver = driver_with()
    assert alter(driver, values, **more) == error
    assert driver.cluster.group_configs == {}


def test_group_configurations_are_bounded_and_have_to_be_saved(disk, monkeypatch):
    driver = disk.start(limits=Limits(max_groups=1))
    fail_sync(monkeypatch, "kgm.server.logs.data_directory.os.fsync")
    assert alter(driver, {SESSION: "46000"}) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.cluster.group_configs == {}
    monkeypatch.undo()
    assert alter(driver, {SESSION: "46000"}, group="g" * 5_000) == ErrorCode.POLICY_VIOLATION
    assert alter(driver, {SESSION: "0" * 30 + "46000"}) == ErrorCode.POLICY_VIOLATION
    assert driver.cluster.group_configs == {}
    assert alter(driver, {SESSION: "46000"}) == 0
    assert alter(driver, {SESSION: "46000"}, group="h") == ErrorCode.POLICY_VIOLATION


def test_a_broker_describes_its_settings():
    driver = driver_with(brokers=2, group_max_size=7)
    told = configs(driver, "1", kind=BROKER)
    assert told["group.max.size"] == "7"
    assert told["group.consumer.migration.policy"] == "bidirectional"
    assert len(told) == len(fields(driver.cluster.shards.settings)) - 2  # plans and the version are not settings
    assert configs(driver, "2", kind=BROKER) == ErrorCode.INVALID_REQUEST
    assert configs(driver, "", kind=BROKER) == {}
    assert configs(driver, "t", kind=TOPIC) == {}
    assert configs(driver, "nope", kind=TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("damage", ['"group_configs": []', '"group_configs": {"g": 1}', '"deletions": {"t": "x"}'])
def test_a_file_with_wrong_additions_is_damaged(disk, damage):
    disk.folder.mkdir(parents=True)
    text = '{"format":1,"cluster_id":"c","offsets_partitions":50,"topics":{},"assigned":{},' + damage + "}"
    (disk.folder / "kgm.json").write_text(text)
    with pytest.raises(KgmError, match="damaged"):
        disk.start()


def test_a_directory_of_before_consumer_groups_is_taken_up(disk):
    disk.folder.mkdir(parents=True)
    text = '{"format":1,"cluster_id":"c","offsets_partitions":50,"topics":{"t":2},"assigned":{}}'
    (disk.folder / "kgm.json").write_text(text)
    assert isinstance(disk.start({}).events, dict)
    assert disk.driver.cluster.topics.of_users() == {"t": 2}
    assert isinstance(disk.driver.events[disk.driver.send(ListGroupsRequest())], ResponseFrame)
