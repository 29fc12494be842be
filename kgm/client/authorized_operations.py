"""What brokers say the principal is allowed to do: authorized operations (KIP-430), one bit per AclOperation."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from kgm.client.requests import fetch_stated_settings
from kgm.client.transport.brokers import Brokers
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.metadata_request import MetadataRequest
from kgm.protocol.messages.metadata_response import MetadataResponse

#: Codes of AclOperation.
READ: Final = 3
DESCRIBE: Final = 8
_CLUSTER_ACTION: Final = 9
#: What a broker sends that does not report them, although it was asked to (MetadataResponse.json).
_UNTOLD: Final = -(2**31)
#: A setting of Kafka's AclAuthorizer and StandardAuthorizer.
_ALLOWS_EVERYONE: Final = "allow.everyone.if.no.acl.found"
#: Only these versions of Metadata have the cluster's authorized operations.
_METADATA_FROM, _METADATA_TO = 8, 10


def cluster_operations(connection: BrokerConnection, deadline: Deadline) -> int | None:
    """The operations allowed to the principal on the cluster, as bits (KIP-430); None if the broker does not report
    them. 0 without DESCRIBE on the cluster. Raises KgmError."""
    if (
        not connection.supports(ApiKey.METADATA, _METADATA_FROM)
        or connection.versions[ApiKey.METADATA][0] > _METADATA_TO
    ):
        return None
    version = connection.version(ApiKey.METADATA, at_most=_METADATA_TO)
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False, include_cluster_authorized_operations=True)
    answer = connection.call(request, MetadataResponse, version=version, deadline=deadline)
    operations = answer.cluster_authorized_operations
    return None if operations == _UNTOLD else operations


def is_allowed(operations: int, operation: int) -> bool:
    """Whether the bit of an AclOperation is set."""
    return bool(operations >> operation & 1)


def unheard_name() -> str:
    """A name that no group and no topic has. No ACL on a prefix covers it either, unless on one that begins with `-`,
    which both may."""
    return f"-{uuid4().hex}"


def can_list_all(operations: int | None) -> bool:
    """Whether `kgm list` sees every group, which takes DESCRIBE on the cluster."""
    return operations is None or is_allowed(operations, DESCRIBE)


def is_a_brokers(operations: int | None) -> bool:
    """Whether the principal may do what only brokers do: it is a superuser, whom no ACL denies anything, or the brokers
    have no authorizer. operations: as from `cluster_operations`."""
    return operations is not None and is_allowed(operations, _CLUSTER_ACTION)


def opens_what_has_no_acl(brokers: Brokers, deadline: Deadline) -> bool:
    """Whether the authorizer may allow everything on resources that have no ACL, so that a right on one that nobody has
    named says nothing about others. A broker shows only that the setting is there, to a principal with
    DESCRIBE_CONFIGS on the cluster. False if it cannot be read."""
    known = brokers.brokers()
    if not known:
        return False
    broker = known[0]

    def ask(connection: BrokerConnection) -> bool:
        return _ALLOWS_EVERYONE in fetch_stated_settings(connection, broker.id, [_ALLOWS_EVERYONE], deadline)

    try:
        return brokers.on_broker(broker, ask, deadline)
    except KgmError:
        return False


def may_describe_any_group(brokers: Brokers, deadline: Deadline) -> bool:
    """Whether the principal has DESCRIBE on a group that nobody has named, as with an ACL on Group '*'. No API returns
    that, but only with it a broker says who coordinates the group. False if no broker answers, or if that may only be
    because the group has no ACL."""
    group_id = unheard_name()
    try:
        found = brokers.find_coordinators([group_id], deadline)[group_id]
    except KgmError:
        return False
    brokers.forget_coordinators([group_id])
    return not isinstance(found, KgmError) and not opens_what_has_no_acl(brokers, deadline)
