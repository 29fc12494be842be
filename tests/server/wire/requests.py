"""What the verbs of a story send. Options are words like `session=500ms`; each verb lists its own below.

Common options: retry=ERROR,... (send again until the reply has none of them) at=other (the broker that is not the
coordinator, on the slow cluster) group=g (names a group of the run; `group=` is the empty id), v=N (this version only),
member= (`@b` is b's member id, `@b.old` the one before it), instance= (`-` for none), generation= (a number, +1 or
`previous`, seen from what the actor knows). An actor that has joined uses its own ids unless others are given."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kgm.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.end_txn_request import EndTxnRequest
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kgm.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kgm.protocol.struct import Message
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription

if TYPE_CHECKING:
    from tests.server.wire.play import Actor, Run
    from tests.server.wire.story import Step

INFO = {info.name: info for info in API.values()}
UNKNOWN_TOPIC_ID = b"\x11" * 16
_UNITS = {"ms": 1, "s": 1_000, "min": 60_000}
Bounds = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Verb:
    """build: makes the message for one version. bounds: the versions that have all fields that the step uses."""

    key: ApiKey
    build: Callable[["Step", "Actor", int, "Run"], Message]
    bounds: Callable[..., Bounds]
    changes_topics: bool = False

    @property
    def api(self) -> str:
        """Kafka's name of the API."""
        return API[self.key].name


def millis(text: str) -> int:
    number, unit = re.fullmatch(r"(-?\d+)(ms|s|min)", text).groups()
    return int(number) * _UNITS[unit]


def partitions(words: tuple[str, ...]) -> dict[str, list[tuple[int, str]]]:
    """{topic: [(partition, the text after "=")]} of words like `orders-0=5`."""
    found: dict[str, list[tuple[int, str]]] = {}
    for word in words:
        name, _, value = word.partition("=")
        topic, _, index = name.rpartition("-")
        found.setdefault(topic, []).append((int(index), value))
    return found


def _member(step: "Step", actor: "Actor", run: "Run") -> str:
    return run.member(step.options["member"]) if "member" in step.options else actor.member_id


def _instance(step: "Step", actor: "Actor") -> str | None:
    said = step.options.get("instance", actor.instance)
    return None if said in (None, "-") else said


def _generation(step: "Step", actor: "Actor") -> int:
    said = step.options.get("generation", "+0")
    if said == "previous":
        return actor.generation - 1
    return actor.generation + int(said) if said.startswith("+") else int(said)


def _group(step: "Step", run: "Run") -> str:
    return run.group(step.options.get("group", "g"))


def _list(text: str) -> list[str]:
    return text.split(",") if text else []


def _floor_if_static(version: int) -> Callable[..., Bounds]:
    return lambda step, *, static: (version if static else 0, None)


def _any(step: "Step", *, static: bool) -> Bounds:
    return 0, None


# -- membership


def join(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """instance= session=30s rebalance=30s type=consumer protocols=range,... topics=orders,... (or metadata=TEXT)
    reason="""
    options = step.options
    topics = _list(options.get("topics", "orders"))
    blob = encode_subscription(Subscription(topics=tuple(topics), version=1))
    if "metadata" in options:
        blob = options["metadata"].encode("latin-1")
    protocols = [
        JoinGroupRequestProtocol(name=name, metadata=blob) for name in _list(options.get("protocols", "range"))
    ]
    return JoinGroupRequest(
        group_id=_group(step, run),
        session_timeout_ms=millis(options.get("session", "30s")),
        rebalance_timeout_ms=millis(options.get("rebalance", "30s")),
        member_id=_member(step, actor, run),
        group_instance_id=_instance(step, actor),
        protocol_type=options.get("type", "consumer"),
        protocols=protocols,
        reason=options.get("reason"),
    )


def sync(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """assign=a:TEXT,b:!orders-0+orders-1 (by actor) type= name= (`-` for null; else what the join was answered)"""
    pairs = [pair.partition(":") for pair in _list(step.options.get("assign", ""))]
    assignments = [
        SyncGroupRequestAssignment(member_id=run.member("@" + name), assignment=_share(text)) for name, _, text in pairs
    ]
    named = {}
    for option, key, known in (
        ("type", "protocol_type", actor.protocol_type),
        ("name", "protocol_name", actor.protocol_name),
    ):
        said = step.options.get(option, known)
        named[key] = None if said == "-" else said
    return SyncGroupRequest(
        group_id=_group(step, run),
        generation_id=_generation(step, actor),
        member_id=_member(step, actor, run),
        group_instance_id=_instance(step, actor),
        assignments=assignments,
        **named,
    )


def _share(text: str) -> bytes:
    """The bytes of an assignment: in the consumers' format if the text begins with an exclamation mark."""
    if not text.startswith("!"):
        return text.encode()
    wanted = {topic: [index for index, _ in rows] for topic, rows in partitions(tuple(text[1:].split("+"))).items()}
    return encode_assignment(MemberAssignment(partitions=wanted))


def _sync_bounds(step: "Step", *, static: bool) -> Bounds:
    return 5 if {"type", "name"} & step.options.keys() else 3 if static else 0, None


def heartbeat(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    return HeartbeatRequest(
        group_id=_group(step, run),
        generation_id=_generation(step, actor),
        member_id=_member(step, actor, run),
        group_instance_id=_instance(step, actor),
    )


def leave(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """members=MEMBER/INSTANCE,... (either may be empty); without it the actor itself leaves. reason="""
    if version < 3:
        return LeaveGroupRequest(group_id=_group(step, run), member_id=_member(step, actor, run))
    reason = step.options.get("reason")
    if "members" in step.options:
        pairs = [pair.partition("/") for pair in _list(step.options["members"])]
        identities = [
            MemberIdentity(member_id=run.member(member), group_instance_id=instance or None, reason=reason)
            for member, _, instance in pairs
        ]
    else:
        own = _member(step, actor, run)
        identities = [MemberIdentity(member_id=own, group_instance_id=_instance(step, actor), reason=reason)]
    return LeaveGroupRequest(group_id=_group(step, run), members=identities)


def _leave_bounds(step: "Step", *, static: bool) -> Bounds:
    return 3 if static or "members" in step.options else 0, None


# -- consumer groups (KIP-848)


def beat(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """epoch=0 (to join; else what the actor knows) topics=orders,... regex= assignor= rack= rebalance=30s
    owns=orders-0,... (for a member that joins: nothing, `-` for null). Each of them is null if it is not given, except
    that a member that joins subscribes to orders by default. regex gets the run's prefix, rawregex does not."""
    options = step.options
    epoch = int(options["epoch"]) if "epoch" in options else actor.generation
    joins = epoch == 0
    owned: list[TopicPartitions] | None = [] if joins else None
    if options.get("owns", "-") != "-":
        rows = partitions(tuple(_list(options["owns"])))
        owned = [
            TopicPartitions(topic_id=run.topic_id(t), partitions=[i for i, _ in found]) for t, found in rows.items()
        ]
    elif "owns" in options:
        owned = None
    regex = run.topic(options["regex"]) if "regex" in options else options.get("rawregex")
    names = [run.topic(name) for name in _list(options["topics"])] if "topics" in options else None
    if names is None and regex is None and joins:
        names = ["orders"]
    rebalance = options.get("rebalance", "30s" if joins else "-1ms")
    return ConsumerGroupHeartbeatRequest(
        group_id=_group(step, run),
        member_id=_member(step, actor, run),
        member_epoch=epoch,
        instance_id=_instance(step, actor),
        rack_id=options.get("rack"),
        rebalance_timeout_ms=millis(rebalance),
        subscribed_topic_names=None if options.get("topics") == "-" else names,
        subscribed_topic_regex=regex,
        server_assignor=options.get("assignor"),
        topic_partitions=owned,
    )


def _beat_bounds(step: "Step", *, static: bool) -> Bounds:
    return 1 if {"regex", "rawregex"} & step.options.keys() else 0, None


def streams_beat(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """sources=orders,... changelog=NAME or NAME:PARTITIONS repartition=NAME sink=NAME: the one subtopology of a member
    that joins; every part may be left out."""
    options = step.options
    name, _, size = options.get("changelog", "").partition(":")
    changelogs = [TopicInfo(name=name, partitions=int(size or 0))] if name else []
    row = Subtopology(
        subtopology_id="0",
        source_topics=_list(options.get("sources", "")),
        repartition_sink_topics=_list(options.get("sink", "")),
        repartition_source_topics=[TopicInfo(name=name) for name in _list(options.get("repartition", ""))],
        state_changelog_topics=changelogs,
    )
    return StreamsGroupHeartbeatRequest(
        group_id=_group(step, run),
        member_id=_member(step, actor, run),
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        process_id="process",
        topology=Topology(subtopologies=[row]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def configure(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """consumer.session.timeout.ms=1000 ... unset=NAME,... validate"""
    rows = [
        AlterableConfig(name=name, config_operation=0, value=None if value == "null" else value)
        for name, value in step.options.items()
        if "." in name
    ]
    rows += [
        AlterableConfig(name=name, config_operation=1, value=None) for name in _list(step.options.get("unset", ""))
    ]
    kind = int(step.options.get("type", "32"))
    resource = AlterConfigsResource(resource_type=kind, resource_name=_group(step, run), configs=rows)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only="validate" in step.words)


def describe_configs(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """keys=consumer.session.timeout.ms,... synonyms shows=KEY:VALUE"""
    keys = step.options.get("keys", "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
    resource = DescribeConfigsResource(
        resource_type=int(step.options.get("type", "32")),
        resource_name=_group(step, run),
        configuration_keys=_list(keys),
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms="synonyms" in step.words)


# -- topics of a run


def create_topics(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """news=2 ... validate"""
    topics = [
        CreatableTopic(name=run.topic(name), num_partitions=int(count), replication_factor=1)
        for name, count in step.options.items()
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only="validate" in step.words)


def grow_topics(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """news=4 ... validate"""
    topics = [
        CreatePartitionsTopic(name=run.topic(name), count=int(count), assignments=None)
        for name, count in step.options.items()
    ]
    return CreatePartitionsRequest(topics=topics, timeout_ms=30_000, validate_only="validate" in step.words)


def drop_topics(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """news=0 ..."""
    names = [run.topic(name) for name in step.options]
    if version < 6:
        return DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=30_000)


# -- offsets


def commit(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """orders-0=5 orders-1=7:METADATA ... simple (no member id, generation -1) retention=5s epoch=3"""
    simple = "simple" in step.words
    words = tuple(word for word in step.words if word != "simple")
    topics = []
    for topic, rows in partitions(words).items():
        parts = []
        for index, value in rows:
            offset, colon, metadata = value.partition(":")
            part = OffsetCommitRequestPartition(partition_index=index, committed_offset=int(offset))
            if colon:
                part.committed_metadata = None if metadata == "null" else metadata
            part.committed_leader_epoch = int(step.options.get("epoch", "-1"))
            parts.append(part)
        topics.append(OffsetCommitRequestTopic(name=topic, topic_id=run.topic_id(topic), partitions=parts))
    message = OffsetCommitRequest(
        group_id=_group(step, run),
        generation_id_or_member_epoch=-1 if simple else _generation(step, actor),
        member_id="" if simple else _member(step, actor, run),
        group_instance_id=None if simple and "instance" not in step.options else _instance(step, actor),
        topics=topics,
    )
    if "retention" in step.options:
        message.retention_time_ms = millis(step.options["retention"])
    if simple and "member" in step.options:
        message.member_id = run.member(step.options["member"])
    if simple and "generation" in step.options:
        message.generation_id_or_member_epoch = int(step.options["generation"])
    return message


def _commit_bounds(step: "Step", *, static: bool) -> Bounds:
    static = static and ("simple" not in step.words or step.options.get("instance", "-") != "-")
    return 7 if static else 0, 4 if "retention" in step.options else None


def fetch(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """orders-0 orders-1 ..., or all (v2+). stable (v7+) groups=g,h (v8+)"""
    stable, everything = "stable" in step.words, "all" in step.words
    wanted = partitions(tuple(word for word in step.words if word not in ("stable", "all")))
    if version < 8:
        old = [OffsetFetchRequestTopic(name=t, partition_indexes=[i for i, _ in rows]) for t, rows in wanted.items()]
        return OffsetFetchRequest(group_id=_group(step, run), topics=None if everything else old, require_stable=stable)
    topics = [
        OffsetFetchRequestTopics(name=t, topic_id=run.topic_id(t), partition_indexes=[i for i, _ in rows])
        for t, rows in wanted.items()
    ]
    names = _list(step.options["groups"]) if "groups" in step.options else [step.options.get("group", "g")]
    groups = [
        OffsetFetchRequestGroup(group_id=run.group(name), topics=None if everything else topics) for name in names
    ]
    if "member" in step.options:
        for group in groups:
            group.member_id, group.member_epoch = run.member(step.options["member"]), _generation(step, actor)
    return OffsetFetchRequest(groups=groups, require_stable=stable)


def _fetch_bounds(step: "Step", *, static: bool) -> Bounds:
    floor = 2 if "all" in step.words else 1
    floor = 7 if "stable" in step.words else floor
    floor = 8 if "groups" in step.options else floor
    return 9 if "member" in step.options else floor, None


def delete_offsets(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """orders-0 orders-1 ..., or apart: a topic for each partition"""
    words = tuple(word for word in step.words if word != "apart")
    parts = [(word,) for word in words] if "apart" in step.words else [words]
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index, _ in rows]
        )
        for part in parts
        for topic, rows in partitions(part).items()
    ]
    return OffsetDeleteRequest(group_id=_group(step, run), topics=topics)


def list_offsets(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """orders-0=-1 (latest) orders-0=-2 (earliest) orders-0=MILLIS"""
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=int(at or -1)) for index, at in rows],
        )
        for topic, rows in partitions(step.words).items()
    ]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


# -- groups


def describe(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """groups=g,h authorized (v3+)"""
    return DescribeGroupsRequest(
        groups=[run.group(name) for name in step.options.get("groups", "g").split(",")],
        include_authorized_operations="authorized" in step.words,
    )


def _describe_bounds(step: "Step", *, static: bool) -> Bounds:
    return 3 if "authorized" in step.words else 0, None


def describe_consumer(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """groups=g,h"""
    return ConsumerGroupDescribeRequest(
        group_ids=[run.group(name) for name in step.options.get("groups", "g").split(",")]
    )


def list_groups(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """states=Stable,... (v4+) types=classic,... (v5+)"""
    return ListGroupsRequest(
        states_filter=_list(step.options.get("states", "")), types_filter=_list(step.options.get("types", ""))
    )


def _list_bounds(step: "Step", *, static: bool) -> Bounds:
    return 5 if "types" in step.options else 4 if "states" in step.options else 0, None


def delete_groups(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """groups=g,h"""
    return DeleteGroupsRequest(groups_names=[run.group(name) for name in step.options.get("groups", "g").split(",")])


# -- cluster


def find(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """groups=g,h (more than one: v4+) type=0 (v1+)"""
    keys = [run.group(name) for name in step.options.get("groups", "g").split(",")]
    kind = int(step.options.get("type", "0"))
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=kind)
    return FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)


def _find_bounds(step: "Step", *, static: bool) -> Bounds:
    return 4 if "," in step.options.get("groups", "") else 1 if "type" in step.options else 0, None


def api_versions(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """software=NAME/VERSION"""
    name, _, number = step.options.get("software", "wire/1.0").partition("/")
    return ApiVersionsRequest(client_software_name=name, client_software_version=number)


def init_producer(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """id=TEXT (a transactional id) timeout=60s"""
    transactional_id = run.group(step.options["id"]) if "id" in step.options else None
    timeout_ms = millis(step.options.get("timeout", "60s"))
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)


def _producer(step: "Step", actor: "Actor", run: "Run") -> dict[str, Any]:
    """id=TEXT epoch=+1 or a number producer=N (else what InitProducerId was answered)"""
    epoch = step.options.get("epoch", "+0")
    return {
        "transactional_id": run.group(step.options.get("id", "tx")),
        "producer_id": int(step.options.get("producer", actor.producer_id)),
        "producer_epoch": actor.producer_epoch + int(epoch) if epoch.startswith("+") else int(epoch),
    }


def add_offsets(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """See _producer."""
    return AddOffsetsToTxnRequest(group_id=_group(step, run), **_producer(step, actor, run))


def txn_commit(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """orders-0=5 ... generation= member= instance= (v3+; without these the request names no member)"""
    topics = []
    for topic, rows in partitions(step.words).items():
        parts = []
        for index, value in rows:
            offset, colon, text = value.partition(":")
            part = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=int(offset))
            if colon:
                part.committed_metadata = text
            parts.append(part)
        topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=parts))
    message = TxnOffsetCommitRequest(group_id=_group(step, run), topics=topics, **_producer(step, actor, run))
    if "generation" in step.options:
        message.generation_id = _generation(step, actor)
    if "member" in step.options:
        message.member_id = run.member(step.options["member"])
    message.group_instance_id = step.options.get("instance")
    return message


def _txn_commit_bounds(step: "Step", *, static: bool) -> Bounds:
    return 3 if {"generation", "member", "instance"} & step.options.keys() else 0, None


def end_txn(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """commit or abort; see _producer."""
    return EndTxnRequest(committed="commit" in step.words, **_producer(step, actor, run))


def metadata(step: "Step", actor: "Actor", version: int, run: "Run") -> Message:
    """orders payments ... (by name), ids=orders,... (v12+: by id), or all; authorized (v8+)"""
    names = [word for word in step.words if word not in ("all", "authorized")]
    topics = [MetadataRequestTopic(name=name) for name in names]
    by_id = _list(step.options.get("ids", ""))
    topics += [MetadataRequestTopic(topic_id=run.topic_id(name), name=None) for name in by_id]
    message = MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
    if "all" in step.words:
        message.topics = [] if version == 0 else None
    message.include_topic_authorized_operations = "authorized" in step.words
    return message


def _metadata_bounds(step: "Step", *, static: bool) -> Bounds:
    return 12 if "ids" in step.options else 8 if "authorized" in step.words else 0, None


VERBS = {
    "join": Verb(ApiKey.JOIN_GROUP, join, _floor_if_static(5)),
    "enter": Verb(ApiKey.JOIN_GROUP, join, _floor_if_static(5)),
    "sync": Verb(ApiKey.SYNC_GROUP, sync, _sync_bounds),
    "heartbeat": Verb(ApiKey.HEARTBEAT, heartbeat, _floor_if_static(3)),
    "leave": Verb(ApiKey.LEAVE_GROUP, leave, _leave_bounds),
    "beat": Verb(ApiKey.CONSUMER_GROUP_HEARTBEAT, beat, _beat_bounds),
    "streams-beat": Verb(ApiKey.STREAMS_GROUP_HEARTBEAT, streams_beat, _any),
    "configure": Verb(ApiKey.INCREMENTAL_ALTER_CONFIGS, configure, _any),
    "describe-configs": Verb(ApiKey.DESCRIBE_CONFIGS, describe_configs, _any),
    "create": Verb(ApiKey.CREATE_TOPICS, create_topics, _any, changes_topics=True),
    "grow": Verb(ApiKey.CREATE_PARTITIONS, grow_topics, _any, changes_topics=True),
    "drop": Verb(ApiKey.DELETE_TOPICS, drop_topics, _any, changes_topics=True),
    "commit": Verb(ApiKey.OFFSET_COMMIT, commit, _commit_bounds),
    "fetch": Verb(ApiKey.OFFSET_FETCH, fetch, _fetch_bounds),
    "delete-offsets": Verb(ApiKey.OFFSET_DELETE, delete_offsets, _any),
    "list-offsets": Verb(ApiKey.LIST_OFFSETS, list_offsets, _any),
    "describe": Verb(ApiKey.DESCRIBE_GROUPS, describe, _describe_bounds),
    "until": Verb(ApiKey.DESCRIBE_GROUPS, describe, _describe_bounds),
    "describe-consumer": Verb(ApiKey.CONSUMER_GROUP_DESCRIBE, describe_consumer, _any),
    "until-consumer": Verb(ApiKey.CONSUMER_GROUP_DESCRIBE, describe_consumer, _any),
    "list": Verb(ApiKey.LIST_GROUPS, list_groups, _list_bounds),
    "delete": Verb(ApiKey.DELETE_GROUPS, delete_groups, _any),
    "find": Verb(ApiKey.FIND_COORDINATOR, find, _find_bounds),
    "api-versions": Verb(ApiKey.API_VERSIONS, api_versions, _any),
    "init-producer": Verb(ApiKey.INIT_PRODUCER_ID, init_producer, _any),
    "add-offsets": Verb(ApiKey.ADD_OFFSETS_TO_TXN, add_offsets, _any),
    "txn-commit": Verb(ApiKey.TXN_OFFSET_COMMIT, txn_commit, _txn_commit_bounds),
    "end-txn": Verb(ApiKey.END_TXN, end_txn, _any),
    "metadata": Verb(ApiKey.METADATA, metadata, _metadata_bounds),
}
