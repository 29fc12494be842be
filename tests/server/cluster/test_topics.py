import base64

import pytest

from kgm.model.errors import UsageError
from kgm.server.cluster.topics import Topics, has_partition, is_legal_name, topic_id


def test_topics_are_found_by_name_and_id_and_listed_by_name():
    topics = Topics({"b": 2, "a": 1})
    assert [topic.name for topic in topics.all()] == ["a", "b"]
    assert topics.by_id(topics.by_name("b").topic_id) is topics.by_name("b")
    assert topics.by_name("c") is None
    assert topics.by_id(bytes(16)) is None
    assert dict(topics) == {"b": 2, "a": 1}
    assert len(topics) == 2
    assert topics.total_partitions == 3


def test_a_topic_that_is_added_shows_in_the_mapping():
    topics = Topics({})
    topic = topics.add("t", 4)
    assert topics["t"] == 4
    assert has_partition(topic, 3)
    assert not has_partition(topic, 4)
    assert not has_partition(topic, -1)


def test_ids_depend_on_the_name_alone_and_never_print_with_a_dash_in_front():
    ids = {topic_id(f"topic-{n}") for n in range(500)}
    assert len(ids) == 500
    assert topic_id("topic-7") in ids
    assert not [i for i in ids if base64.urlsafe_b64encode(i).startswith(b"-")]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\n"])
def test_names_that_kafka_refuses(name):
    assert not is_legal_name(name)
    with pytest.raises(UsageError, match="is not a legal topic name"):
        Topics({name: 1})


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_names_that_kafka_takes(name):
    assert is_legal_name(name)


@pytest.mark.parametrize("partitions", [0, -1, 100_001])
def test_partition_counts_that_are_refused(partitions):
    with pytest.raises(UsageError, match="partitions"):
        Topics({"t": partitions})
