"""Kafka's text of a UUID. Expected values were printed by Kafka's own Uuid."""

import random

import pytest

from kgm.model.uuids import uuid_of, uuid_text

METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_as_kafka_prints_them():
    assert uuid_text(bytes(15) + b"\1") == METADATA_TOPIC_ID
    assert uuid_of(METADATA_TOPIC_ID) == bytes(15) + b"\1"


def test_there_and_back():
    chance = random.Random(7)
    for _ in range(200):
        uuid = chance.randbytes(16)
        assert uuid_of(uuid_text(uuid)) == uuid


@pytest.mark.parametrize(
    "text",
    ["", "AAAAAAAAAAAAAAAAAAAAA", METADATA_TOPIC_ID + "A", "AAAAAAAAAAAAAAAAAAAAA!", "\u00e9" * 22, "A" * 21 + "R"],
)
def test_what_is_no_uuid(text):
    assert uuid_of(text) is None
