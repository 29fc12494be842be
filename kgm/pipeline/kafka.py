"""A live `__consumer_offsets` by Spark's own Kafka source, and the topic's offsets as the broker itself has them.

Spark fetches the offsets of a topic through an admin listing that leaves internal topics out: such a topic reads as
empty, without an error. `spark.sql.streaming.kafka.useDeprecatedOffsetFetching` fetches them with a consumer, as
Spark 3 did. If a later Spark does not have it any more, it refuses the broker's own offsets as those of partitions that
are not there, and kgm reports that."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kgm.model.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    KgmError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from kgm.pipeline.options import Source, SourceKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FETCH_WITH_A_CONSUMER: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
#: One ACL on this prefix covers the groups that Spark creates.
GROUP_PREFIX: Final = "kgm-history"
#: Spark sets these itself and refuses them; settings with the prefix `kgm.` are kgm's own.
_NOT_PASSED: Final = frozenset({
    "auto.offset.reset", "enable.auto.commit", "group.id", "group.instance.id", "group.protocol", "interceptor.classes",
    "key.deserializer", "value.deserializer", "key.serializer", "value.serializer", "isolation.level",
})  # fmt: skip
_TIMEOUT_MS: Final = 30_000
_UNSEEN: Final = "offsets don't match what are assigned"

#: By the name of Kafka's exception, the most specific first.
_ERRORS: Final[tuple[tuple[str, type[KgmError], str], ...]] = (
    ("SaslAuthenticationException", AuthenticationError, "kgm config test shows at which step"),
    ("SslAuthenticationException", AuthenticationError, "kgm config test shows at which step"),
    ("TopicAuthorizationException", AuthorizationError, "needed: Read and Describe on topic {topic}"),
    ("GroupAuthorizationException", AuthorizationError, "needed: Read on groups with the prefix " + GROUP_PREFIX),
    ("ClusterAuthorizationException", AuthorizationError, "needed: Describe on the cluster"),
    ("UnknownTopicOrPartitionException", NotFoundError, "check that {topic} is the name of the offsets topic"),
    ("InvalidTopicException", NotFoundError, "check that {topic} is the name of the offsets topic"),
    ("kafka.common.config.ConfigException", UsageError, "kgm config view shows where each setting comes from"),
    ("kafka.common.errors.TimeoutException", UnreachableError, "kgm config test shows at which step"),
    ("kafka.common.KafkaException", BrokerError, "kgm config test shows at which step"),
)


def options(source: Source, ranges: Mapping[int, tuple[int, int]] | None = None) -> dict[str, str]:
    """Options of Spark's Kafka source, batch and streaming. ranges: for a batch, the only offsets of partitions that
    are read, from start to end (exclusive)."""
    client = {f"kafka.{name}": value for name, value in _client(source).items()}
    return client | {
        "kafka.isolation.level": "read_committed",
        **(_everything(source) if ranges is None else _only(source, ranges)),
        # Compaction removes offsets: that is no data loss.
        "failOnDataLoss": "false",
        "groupIdPrefix": GROUP_PREFIX,
    }


def _everything(source: Source) -> dict[str, str]:
    return {"subscribe": source.topic, "startingOffsets": "earliest"}


def _only(source: Source, ranges: Mapping[int, tuple[int, int]]) -> dict[str, str]:
    starts, ends = ({source.topic: {str(number): each[at] for number, each in ranges.items()}} for at in (0, 1))
    # With "subscribe", offsets would have to be given for every partition of the topic.
    return {
        "assign": json.dumps({source.topic: sorted(ranges)}), "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }  # fmt: skip


def _client(source: Source) -> dict[str, str]:
    if not source.properties.get("bootstrap.servers"):
        raise UsageError("no bootstrap.servers for the source kafka", hint="--bootstrap-server HOST:PORT, or a profile")
    return {
        name: value
        for name, value in source.properties.items()
        if name not in _NOT_PASSED and not name.startswith("kgm.")
    }


class JvmClient:
    """Kafka's own client in Spark's JVM, for what Spark's source does not tell."""

    def __init__(self, spark: "SparkSession", source: Source) -> None:
        self._source = source
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  (there is no other way in)
        self._jvm = jvm
        self._properties = jvm.java.util.Properties()
        given = _client(source) | {
            "default.api.timeout.ms": str(_TIMEOUT_MS),
            "request.timeout.ms": str(_TIMEOUT_MS),
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
        }
        for name, value in given.items():
            self._properties.setProperty(name, value)

    def cluster_id(self) -> str | None:
        """The id of the cluster, as `kgm describe` has it."""
        admin: Any = None
        try:
            admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(self._properties)
            cluster_id = admin.describeCluster().clusterId().get()
        except Exception as error:
            raise translated(error, self._source) from error
        finally:
            if admin is not None:
                admin.close()
        return None if cluster_id is None else str(cluster_id)

    def offsets(self) -> dict[int, tuple[int, int]]:
        """(first offset, the one after the last committed record) of each partition of the topic."""
        deserializer = self._jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
        consumer: Any = None
        try:
            consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
                self._properties, deserializer(), deserializer()
            )
            partition_class = self._jvm.org.apache.kafka.common.TopicPartition
            listed = consumer.partitionsFor(self._source.topic)
            places = self._jvm.java.util.ArrayList()
            for info in listed or ():
                places.add(partition_class(self._source.topic, info.partition()))
            first, last = consumer.beginningOffsets(places), consumer.endOffsets(places)
            bounds = {int(at.partition()): (int(first[at]), int(last[at])) for at in places}
        except Exception as error:
            raise translated(error, self._source) from error
        finally:
            if consumer is not None:
                consumer.close()
        if not bounds:
            raise NotFoundError(f"the cluster has no topic {self._source.topic}")
        return bounds


def raised_by_client(error: BaseException, source: Source) -> KgmError | None:
    """What Kafka's client within Spark's own source raised, translated, or that Spark sees no such partitions; None
    for any other error."""
    if source.kind is not SourceKind.SPARK_KAFKA:
        return None
    if _UNSEEN in str(error):
        return RefusedError(
            f"Spark does not see partitions of {source} that the broker has",
            hint=f"check that nothing sets {FETCH_WITH_A_CONSUMER} to false, and report it with the version of Spark",
        )
    return translated(error, source) if "org.apache.kafka" in str(error) else None


def translated(error: BaseException, source: Source) -> KgmError:
    """The error of Kafka's client within Spark as one of kgm's; no setting is repeated in it."""
    text = _text(error)
    for name, kind, hint in _ERRORS:
        at = text.find(name)
        if at >= 0:
            message = text[at:].partition("\n")[0].partition(":")[2].strip() or name.rpartition(".")[2]
            return kind(f"{source}: {message}", hint=hint.format(topic=source.topic))
    return BrokerError(f"{source}: {text.splitlines()[0] if text else type(error).__name__}")


def _text(error: BaseException) -> str:
    """The text of an error, with its causes in Java."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    parts: list[str] = []
    while java is not None and len(parts) < 10:
        try:
            parts.append(str(java.toString()))
            java = java.getCause()
        except AttributeError:
            break
    return "\n".join([*reversed(parts), str(error)])
