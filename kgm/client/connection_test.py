"""Step by step to a cluster: name, connect, tls, versions, sasl for each bootstrap address, then the brokers that the
cluster advertises, then what the principal may do. What failed first is what to mend first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from kgm.client.authorized_operations import READ, cluster_operations, may, may_list_all
from kgm.client.failures import ConnectError, from_code, not_mentioned
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.connection import BrokerConnection, Security, Step
from kgm.client.transport.deadline import Deadline
from kgm.client.transport.parallel import run_parallel
from kgm.model.errors import AuthorizationError, ErrorCode, KgmError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from kgm.protocol.messages.metadata_request import MetadataRequest
from kgm.protocol.messages.metadata_response import MetadataResponse

#: Versions of DescribeGroups that tell authorized operations and are not the newest ones.
_GROUP_OPERATIONS_FROM, _GROUP_OPERATIONS_TO = 3, 5


#: What to try next, where the error itself does not say.
_NEXT = {
    Step.NAME: "is the name right? getent hosts {host}",
    Step.CONNECT: "is the port right, and does a broker listen there? nc -vz {host} {port}; ask for firewalls",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One step. step: name, connect, tls, versions, sasl, broker or authorisation; where: an address, or a resource.

    result: ok, limited (it works, but not for everything), failed, skipped (not asked for). error: for failed."""

    step: str
    where: str
    result: str
    detail: str
    took_ms: int | None = None
    error: KgmError | None = None


@dataclass(slots=True, kw_only=True)
class Checkup:
    """What was found out, in the order of doing."""

    checks: list[Check] = field(default_factory=list)
    cluster_id: str | None = None

    @property
    def errors(self) -> tuple[KgmError, ...]:
        return tuple(check.error for check in self.checks if check.error is not None)


class _Steps:
    """Times the steps of one connection."""

    def __init__(self) -> None:
        self.begun: list[tuple[Step, float]] = []

    def __call__(self, step: Step) -> None:
        self.begun.append((step, time.monotonic()))

    def took_ms(self, index: int, end: float) -> int:
        following = [at for _, at in self.begun[index + 1 : index + 2]]
        return round(((following or [end])[0] - self.begun[index][1]) * 1000)


def check_up(bootstrap: Sequence[Address], security: Security, deadline: Deadline, *, group_id: str | None) -> Checkup:
    """Try everything. Raises nothing for what fails: it is in the checks."""
    found = Checkup()
    connection: BrokerConnection | None = None
    for index, address in enumerate(bootstrap):
        opened = _address(address, security, deadline.part(1 / (len(bootstrap) - index + 1)), found)
        if connection is None:
            connection = opened
        elif opened is not None:
            opened.close()
    if connection is None:
        return found
    try:
        brokers = _brokers(connection, security, deadline, found, set(bootstrap))
        if brokers:
            _rights(connection, security, brokers, deadline, found, group_id)
    finally:
        connection.close()
    return found


def _address(address: Address, security: Security, deadline: Deadline, found: Checkup) -> BrokerConnection | None:
    steps = _Steps()
    error: KgmError | None = None
    connection: BrokerConnection | None = None
    try:
        connection = BrokerConnection.connect(address, deadline, security, told=steps)
    except KgmError as raised:
        error = raised
    end = time.monotonic()
    for index, (step, _) in enumerate(steps.begun):
        failed = _with_hint(error, step, address) if index == len(steps.begun) - 1 else None
        result = "failed" if failed is not None else _result(step, security)
        detail = failed.message if failed is not None else _detail(step, security, connection)
        took = None if result == "skipped" else steps.took_ms(index, end)
        check = Check(step=step.value, where=str(address), result=result, detail=detail, took_ms=took, error=failed)
        found.checks.append(check)
    return connection


def _with_hint(error: KgmError | None, step: Step, address: Address) -> KgmError | None:
    if error is not None and error.hint is None and step in _NEXT:
        error.hint = _NEXT[step].format(host=address.host, port=address.port)
    return error


def _result(step: Step, security: Security) -> str:
    used = {Step.TLS: security.name.endswith("SSL"), Step.SASL: security.name.startswith("SASL")}
    return "ok" if used.get(step, True) else "skipped"


def _detail(step: Step, security: Security, connection: BrokerConnection | None) -> str:
    if _result(step, security) == "skipped":
        return f"not with security.protocol={security.name}"
    match step:
        case Step.TLS:
            agreed = "" if connection is None else connection.tls_version
            return f"{agreed}, certificate trusted".removeprefix(", ")
        case Step.SASL:
            mechanism = getattr(security, "mechanism", "")
            return f"{mechanism}: logged in"
        case Step.VERSIONS:
            return "" if connection is None else f"{len(connection.versions)} APIs"
        case Step.NAME | Step.CONNECT:
            return ""


# -- the brokers -------------------------------------------------------------------------------------------------------


def _brokers(
    connection: BrokerConnection, security: Security, deadline: Deadline, found: Checkup, tried: set[Address]
) -> dict[int, Address]:
    """The cluster's own brokers, each reached; empty when the cluster does not tell them."""
    try:
        version = connection.version(ApiKey.METADATA)
        request = MetadataRequest(topics=[], allow_auto_topic_creation=version < 4)
        answer = connection.call(request, MetadataResponse, version=version, deadline=deadline)
    except KgmError as error:
        where = str(connection.address)
        found.checks.append(Check(step="broker", where=where, result="failed", detail=error.message, error=error))
        return {}
    found.cluster_id = answer.cluster_id
    brokers = {row.node_id: Address(row.host, row.port) for row in answer.brokers}
    ours = deadline.part(0.6)
    tasks = {number: (lambda at=at: _reach(at, security, ours)) for number, at in brokers.items() if at not in tried}
    reached = run_parallel(tasks, ours, "a broker") if tasks else {}
    for number, at in sorted(brokers.items()):
        outcome = reached.get(number)
        if isinstance(outcome, KgmError):
            failed = _unreached(outcome, number)
            check = Check(step="broker", where=f"{number} {at}", result="failed", detail=failed.message, error=failed)
            found.checks.append(check)
        else:
            detail = "as advertised" + ("" if number in reached else ", the bootstrap address")
            found.checks.append(Check(step="broker", where=f"{number} {at}", result="ok", detail=detail))
    return brokers


def _unreached(error: KgmError, number: int) -> KgmError:
    """The usual trouble with advertised.listeners, named."""
    if not isinstance(error, ConnectError):
        return error
    fact = f"the cluster advertises broker {number} at this address (its advertised.listeners)"
    hint = error.hint or "can this machine reach that address? if not, the broker must advertise another"
    return ConnectError(error.message, facts=(*error.facts, fact), hint=hint)


def _reach(address: Address, security: Security, deadline: Deadline) -> None:
    BrokerConnection.connect(address, deadline, security).close()


# -- rights ------------------------------------------------------------------------------------------------------------


def _rights(
    connection: BrokerConnection, security: Security, brokers: dict[int, Address], deadline: Deadline, found: Checkup,
    group_id: str | None,
) -> None:  # fmt: skip
    try:
        found.checks.append(_cluster_rights(connection, deadline, needed=group_id is None))
        if group_id is not None:
            found.checks.append(_group_rights(connection, security, brokers, deadline, group_id))
    except KgmError as error:
        check = Check(step="authorisation", where="Cluster", result="failed", detail=error.message, error=error)
        found.checks.append(check)


def _cluster_rights(connection: BrokerConnection, deadline: Deadline, *, needed: bool) -> Check:
    if may_list_all(cluster_operations(connection, deadline)):
        detail = "DESCRIBE: list shows every group"
        return Check(step="authorisation", where="Cluster", result="ok", detail=detail)
    version = connection.version(ApiKey.LIST_GROUPS)
    answer = connection.call(ListGroupsRequest(), ListGroupsResponse, version=version, deadline=deadline)
    if answer.groups or not needed:
        detail = "no DESCRIBE: list shows only groups on which there is DESCRIBE"
        return Check(step="authorisation", where="Cluster", result="limited", detail=detail)
    message = "the principal sees no group"
    error = AuthorizationError(
        message, facts=("the principal needs DESCRIBE on Cluster 'kafka-cluster', or on the groups",),
        hint="kafka-acls --add --allow-principal User:NAME --operation Describe --cluster (or --group GROUP); "
        "then kgm config test -g GROUP",
    )  # fmt: skip
    return Check(step="authorisation", where="Cluster", result="failed", detail=message, error=error)


def _group_rights(
    connection: BrokerConnection, security: Security, brokers: dict[int, Address], deadline: Deadline, group_id: str
) -> Check:
    """DESCRIBE for list, describe and simulate-bounce; READ for remove-members."""
    where = f"Group {group_id!r}"
    find = FindCoordinatorRequest(key=group_id)
    version = connection.version(ApiKey.FIND_COORDINATOR, at_most=3)
    answer = connection.call(find, FindCoordinatorResponse, version=version, deadline=deadline)
    code, operations = answer.error_code, 0
    if not code:
        at = brokers.get(answer.node_id, Address(answer.host, answer.port))
        code, operations = _described(at, security, deadline, group_id)
    if code:
        doing = f"group {group_id!r} cannot be described"
        error = from_code(code, doing, api="DescribeGroups", group_id=group_id)
        return Check(step="authorisation", where=where, result="failed", detail=error.message, error=error)
    if may(operations, READ):
        detail = "DESCRIBE and READ: every command may be used"
        return Check(step="authorisation", where=where, result="ok", detail=detail)
    detail = "DESCRIBE: describe and simulate-bounce may be used; remove-members needs READ"
    return Check(step="authorisation", where=where, result="limited", detail=detail)


def _described(at: Address, security: Security, deadline: Deadline, group_id: str) -> tuple[int, int]:
    """(error code, authorized operations) of a group at its coordinator. It need not exist."""
    connection = BrokerConnection.connect(at, deadline, security)
    try:
        if not connection.supports(ApiKey.DESCRIBE_GROUPS, _GROUP_OPERATIONS_FROM):
            return ErrorCode.NONE, 0
        version = connection.version(ApiKey.DESCRIBE_GROUPS, at_most=_GROUP_OPERATIONS_TO)
        request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=True)
        answer = connection.call(request, DescribeGroupsResponse, version=version, deadline=deadline)
        for group in answer.groups:
            if group.group_id == group_id:
                return group.error_code, max(group.authorized_operations, 0)
        raise not_mentioned(group_id, str(at))
    finally:
        connection.close()
