"""Scenes about lag: what waits, since when, and why a number is odd."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.questions.stage import COMMITS, Stage


def nobody_reads(stage: Stage) -> None:
    """The last member leaves, and records keep arriving."""
    last = stage.alone()
    stage.produce(5, 0, 1)
    assert [last.commit(partition, 5) for partition in (0, 1)] == [0, 0]
    stage.leave(last)
    stage.produce(7, 0, 1)
    stage.meanwhile(lambda: stage.produce(1, 0))


def falls_behind(stage: Stage) -> None:
    """In each round one record is committed, and several arrive."""
    member, done = stage.alone(), [0]
    stage.produce(3_000, 0)  # many times what arrives in a window

    def step() -> None:
        done[0] += 1
        assert member.commit(0, done[0]) == 0
        stage.produce(5, 0)

    stage.meanwhile(step, 0.5)


def catches_up(stage: Stage) -> None:
    """In each round one of the waiting records is committed."""
    member, done = stage.alone(), [0]
    stage.produce(500, 0)

    def step() -> None:
        done[0] += 1
        assert member.commit(0, done[0]) == 0

    stage.meanwhile(step)


def in_time(stage: Stage) -> None:
    """One of two members has read everything, the other nothing of the second half."""
    first, second = stage.stable("settle-1", "settle-2")
    stage.produce(20, 0, 1)
    assert (first.commit(0, 20), second.commit(1, 20)) == (0, 0)
    stage.produce(20, 0, 1)
    assert first.commit(0, 40) == 0


def one_is_stuck(stage: Stage) -> None:
    """A member repeatedly commits all of one partition; in its other partition, it is stuck at a record."""
    member, done = stage.alone("settle-1"), [0]
    stage.produce(200, 1)
    assert member.commit(1, 17) == 0

    def step() -> None:
        stage.produce(1, 0)
        done[0] += 1
        assert member.commit(0, done[0]) == 0

    stage.meanwhile(step)


def past_the_end(stage: Stage) -> None:
    """The committed offset does not exist in the topic, which was recreated since."""
    stage.produce(3, 0)
    stage.commit(0, 500)


def lost_records(stage: Stage) -> None:
    """Retention deletes records that have not been read yet."""
    stage.produce(500, 0)
    member = stage.alone()
    assert member.commit(0, 3) == 0
    stage.delete_records(0, 500)


def open_transaction(stage: Stage) -> None:
    """A producer has not ended its transaction; a read_committed consumer waits."""
    producer = Producer({"bootstrap.servers": stage.kafka.bootstrap, "transactional.id": stage.name, "log_level": 2})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(stage.topic, b"record", partition=1)
    producer.flush(60)
    stage.stack.callback(producer.abort_transaction, 60)
    stage.start(stage.java, config=COMMITS | {"isolation.level": "read_committed"})


def one_forever(stage: Stage) -> None:
    """All records of a transaction are committed; the marker at its end takes an offset too."""
    producer = Producer({"bootstrap.servers": stage.kafka.bootstrap, "transactional.id": stage.name, "log_level": 2})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(stage.topic, b"record", partition=0)
    producer.commit_transaction(60)
    assert stage.alone().commit(0, 3) == 0


def no_number(stage: Stage) -> None:
    """A member that has committed nothing yet."""
    stage.produce(4, 0)
    stage.alone()


def left_topic(stage: Stage) -> None:
    """A new version of the application reads another topic."""
    former = stage.alone("former", topic=f"{stage.name}-old")
    assert [former.commit(partition, 0) for partition in (0, 1)] == [0, 0]
    stage.leave(former)
    stage.produce(7, 0, 1, topic=f"{stage.name}-old")
    stage.alone("present")
