"""A real Kafka whose authorizer allows everything on resources that have no ACL: a login may describe any topic that it
invents, and still not see the offsets of one that has an ACL for others."""

from __future__ import annotations

import json

import pytest

from tests.cli.runner import kgm
from tests.kafka.records import commit
from tests.kafka.secured import SecuredKafka

GROUP, OPEN, CLOSED = "open-group", "open-topic", "closed-topic"


@pytest.fixture(scope="module")
def kafka():
    broker = SecuredKafka({"allow.everyone.if.no.acl.found": "true"}).start()
    try:
        broker.create_topics({OPEN: 1, CLOSED: 1})
        broker.produce(CLOSED, [b"x"] * 5)
        commit(broker.bootstrap, GROUP, (OPEN, 0, 0), (CLOSED, 0, 0))
        broker.allow("operator", "READ", topic=CLOSED)
        yield broker
    finally:
        broker.stop()


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
def test_a_lag_of_what_may_be_a_part_is_no_zero(kafka, tmp_path):
    def lag(user, *forbidden):
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in kafka.settings("SASL_SSL", user).items()))
        path.chmod(0o600)
        waited = kgm("wait", GROUP, "--for", "lag<=0", "--timeout", "2s", "--command-config", str(path), "-o", "json")
        return waited.code, json.loads(waited.out)["data"]["lag"], waited.err

    assert lag("operator")[:2] == (8, 5)
    code, seen, err = lag("viewer")  # the log of the group, which has no ACL either, names the topic
    assert (code, seen, CLOSED in err) == (7, None, True)
    kafka.allow("operator", "READ", topic="__consumer_offsets")
    code, seen, err = lag("viewer")
    assert (code, seen, CLOSED in err) == (7, None, False)
