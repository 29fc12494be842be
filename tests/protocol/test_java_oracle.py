"""kgm's bytes are Kafka's: every message and record, every version, both directions, against Kafka's own classes."""

import base64

import pytest

from kgm.model.errors import DecodeError
from kgm.protocol import codec
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kgm.records.record import WRITTEN_VERSIONS, Record, decode_record, encode_record
from tests.kafka.oracle import OracleError
from tests.protocol.cases import (
    EVERY,
    MESSAGES,
    FromSchema,
    FromTables,
    damaged,
    rng_for,
    schemas,
    span,
    struct_differences,
)
from tests.selection import sized

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
CASES = sized(4, 25)
each_message = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)


def versions(cls):
    return range(cls.MIN_VERSION, cls.MAX_VERSION + 1)


def test_versions_and_keys_are_those_of_the_schema():
    for cls in MESSAGES:
        schema = schemas()[cls.__name__]
        assert span(schema["validVersions"]) == (cls.MIN_VERSION, cls.MAX_VERSION)
        flexible = span(schema["flexibleVersions"])
        assert [version >= cls.FLEXIBLE_FROM for version in versions(cls)] == [
            flexible is not None and flexible[0] <= version <= flexible[1] for version in versions(cls)
        ]
        if "apiKey" in schema:
            assert schema["apiKey"] == cls.API_KEY


@pytest.mark.few(63)
@each_message
def test_what_kgm_writes_kafka_reads_and_writes_again(cls, oracle):
    for version in versions(cls):
        rng = rng_for(cls.__name__, version)
        for message in [cls()] + [FromTables(cls, version, rng).message() for _ in range(CASES)]:
            data = codec.encode(message, version)
            assert oracle.roundtrip(cls.__name__, version, data) == data, (version, message)
            seen = oracle.to_json(cls.__name__, version, data)
            assert struct_differences(seen, message, cls, version) == [], (version, message)
            assert codec.decode(cls, data, version) == message


@pytest.mark.few(63)
@each_message
def test_what_kafka_writes_kgm_reads_and_writes_again(cls, oracle):
    for version in versions(cls):
        rng = rng_for("java", cls.__name__, version)
        for _ in range(CASES):
            value = FromSchema(schemas()[cls.__name__], version, rng).message()
            data = oracle.from_json(cls.__name__, version, value)
            message = codec.decode(cls, data, version)
            assert struct_differences(value, message, cls, version) == [], (version, value)
            assert codec.encode(message, version) == data, (version, value)


@pytest.mark.few(42)
@each_message
def test_damaged_bytes_that_kgm_takes_kafka_takes_alike(cls, oracle):
    """kgm is the stricter of the two, and only so: Kafka also takes lengths below -1 as null, puts U+FFFD for bad
    UTF-8, does not hold a tagged field to its stated size nor tags to their order, and drops bits of long varints."""
    taken = 0
    for version in versions(cls):
        rng = rng_for("damage", cls.__name__, version)
        for data in damaged(codec.encode(FromTables(cls, version, rng).message(), version), rng):
            try:
                again = codec.encode(codec.decode(cls, data, version), version)
            except DecodeError:
                continue
            taken += 1
            try:
                kafkas = oracle.roundtrip(cls.__name__, version, data)
            except OracleError as error:
                if "is not valid for version" not in str(error):
                    raise
                continue  # a tag of another version of the message is an unknown tag to kgm
            assert kafkas == again, (version, data)
    assert taken > 0


def test_every_record_type_through_its_front_door(oracle):
    """encode_record's prefix, key and value are what Kafka's classes read behind the two int16s."""
    keys = {cls.API_KEY: cls for cls in MESSAGES if cls.__name__.endswith("Key")}
    values = {cls.__name__: cls for cls in MESSAGES if cls.__name__.endswith("Value")}
    assert len(keys) == len(values) == 22
    for kind, key_class in keys.items():
        value_class = values[key_class.__name__.removesuffix("Key") + "Value"]
        rng = rng_for("record", kind)
        for _ in range(CASES):
            version = WRITTEN_VERSIONS.get(kind, 0)
            key = FromTables(key_class, 0, rng).message()
            value = FromTables(value_class, version, rng).message()
            key_bytes, value_bytes = encode_record(Record(key, value))
            assert key_bytes[:2] == kind.to_bytes(2)
            assert oracle.roundtrip(key_class.__name__, 0, key_bytes[2:]) == key_bytes[2:]
            written = int.from_bytes(value_bytes[:2])
            assert oracle.roundtrip(value_class.__name__, written, value_bytes[2:]) == value_bytes[2:]
            assert decode_record(key_bytes, value_bytes) == Record(key, value)
            assert decode_record(key_bytes, None) == Record(key, None)


def partitions(rng):
    """{topic: partitions}, both sorted."""
    topics = rng.sample(["a", "b", "topic-ü", "z"], rng.randint(0, 4))
    return {topic: sorted(rng.sample(range(50), rng.randint(1, 5))) for topic in sorted(topics)}


def flat(assignment):
    return [[topic, partition] for topic, numbers in assignment.items() for partition in numbers]


def user_data(rng):
    return rng.choice([None, b"", rng.randbytes(5)])


def base64_text(data):
    return None if data is None else base64.b64encode(data).decode()


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_as_a_java_leader_reads_them(oracle, version):
    rng = rng_for("subscription", version)
    for _ in range(100):
        subscription = Subscription(
            topics=tuple(sorted(rng.sample(["a", "b", "ü", "z"], rng.randint(0, 4)))),
            user_data=user_data(rng),
            owned_partitions=partitions(rng) if version >= 1 else {},
            generation_id=rng.randint(-1, 9) if version >= 2 else -1,
            rack_id=rng.choice([None, "r"]) if version >= 3 else None,
            version=version,
        )
        blob = encode_subscription(subscription)
        seen, again = oracle.subscription(blob, version)
        assert seen == {
            "topics": list(subscription.topics),
            "userData": base64_text(subscription.user_data),
            "owned": flat(subscription.owned_partitions),
            "generation": subscription.generation_id,
            "rack": subscription.rack_id,
        }
        assert again == blob
        assert decode_subscription(again) == subscription


@pytest.mark.parametrize("version", range(4))
def test_assignments_as_a_java_member_reads_them(oracle, version):
    rng = rng_for("assignment", version)
    for _ in range(100):
        assignment = MemberAssignment(partitions=partitions(rng), user_data=user_data(rng), version=version)
        blob = encode_assignment(assignment)
        seen, again = oracle.assignment(blob, version)
        assert seen == {"partitions": flat(assignment.partitions), "userData": base64_text(assignment.user_data)}
        assert sorted(again) == sorted(blob)  # Java orders topics by hash
        assert decode_assignment(again) == assignment


def test_a_newer_subscription_is_read_by_the_known_prefix(oracle):
    blob = encode_subscription(
        Subscription(topics=("t",), owned_partitions={"t": [0, 4]}, generation_id=8, rack_id="r", version=3)
    )
    newer = b"\0\x09" + blob[2:] + b"something newer"
    seen, _ = oracle.subscription(newer, 3)
    read = decode_subscription(newer)
    assert [seen["topics"], seen["generation"], seen["rack"]] == [list(read.topics), read.generation_id, read.rack_id]
    assert seen["owned"] == flat(read.owned_partitions)
    assert read.version == 9


def test_a_topic_that_stands_twice_is_merged(oracle):
    blob = b"\0\0" + b"\0\0\0\2" + (b"\0\1t\0\0\0\1\0\0\0\5" + b"\0\1t\0\0\0\1\0\0\0\2") + b"\xff\xff\xff\xff"
    seen, _ = oracle.assignment(blob, 0)
    assert sorted(seen["partitions"]) == [["t", 2], ["t", 5]]
    assert decode_assignment(blob).partitions == {"t": [2, 5]}


def test_the_table_of_messages_is_complete():
    assert len(EVERY) > 300
    assert {cls.__name__ for cls in MESSAGES} <= set(schemas())
