"""Scenes about a group's surroundings: rights, listeners, logins, coordinators, and the wrong cluster."""

from __future__ import annotations

import socket
from typing import Any

from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.metadata_response import MetadataResponseBroker
from tests.client.faults import BlackHole, Edit, FaultProxy
from tests.questions.stage import Stage

USER = "asker"


def _login(stage: Stage, user: str = USER) -> None:
    stage.bootstrap = stage.kafka.bootstrap_of("SASL_SSL")
    settings = stage.kafka.settings("SASL_SSL", user)
    stage.file(f"{user}.properties", {key: value for key, value in settings.items() if key != "bootstrap.servers"})


def no_right_to_the_topic(stage: Stage) -> None:
    """A login may see the group, but not the topic that it reads."""
    stage.kafka.add_absent_member(stage.name, "vault-1")
    stage.kafka.allow(USER, "DESCRIBE", group=stage.name)
    _login(stage)


def no_right_to_the_log(stage: Stage) -> None:
    """A login may see the group, but not what its coordinator wrote."""
    no_right_to_the_topic(stage)


def no_right_at_all(stage: Stage) -> None:
    """A login without rights."""
    stage.kafka.add_absent_member(stage.name, "vault-1")
    _login(stage, "nobody")


def wrong_password(stage: Stage) -> None:
    _login(stage)
    path = stage.folder / f"{USER}.properties"
    path.write_text(path.read_text().replace('password="', 'password="old-'))


def plain_to_tls(stage: Stage) -> None:
    """A client without TLS connects to the port of the TLS listener."""
    stage.bootstrap = stage.kafka.bootstrap_of("SSL")


def advertised_nowhere(stage: Stage) -> None:
    """The bootstrap address leads to the broker, but the address that it advertises leads nowhere, as through a
    tunnel."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    stage.addresses.append(f"127.0.0.1:{port}")
    proxy = stage.behind_proxy()

    def advertise(answer: Any) -> None:
        for broker in answer.brokers:
            broker.host, broker.port = "127.0.0.1", port

    proxy.always(ApiKey.METADATA, Edit(advertise))


def loads(stage: Stage) -> None:
    """The coordinator of the group keeps answering that it is loading."""
    stage.alone("vault-1")
    proxy = stage.behind_proxy()

    def change(answer: Any) -> None:
        for row in answer.coordinators:
            row.error_code, row.node_id = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1

    proxy.always(ApiKey.FIND_COORDINATOR, Edit(change))


def hangs(stage: Stage) -> None:
    """A broker accepts connections but does not answer."""
    stage.behind_proxy().always(ApiKey.API_VERSIONS, BlackHole())


def another_cluster(stage: Stage) -> None:
    """The address now leads to another cluster."""
    stage.alone("vault-1")


def is_listed_twice(stage: Stage) -> None:
    """A broker that has just given the group away still lists it, as it was before its members joined."""
    stage.alone("vault-1")
    late = stage.stack.enter_context(FaultProxy(("127.0.0.1", stage.port)))
    stage.addresses.append(late.bootstrap)
    proxy = stage.behind_proxy()

    def add(answer: Any) -> None:
        answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=late.port))

    def empty(answer: Any) -> None:
        for row in answer.groups:
            row.group_state = "Empty"

    proxy.always(ApiKey.METADATA, Edit(add))
    late.always(ApiKey.LIST_GROUPS, Edit(empty))
