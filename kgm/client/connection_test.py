"""Tests the connection to a cluster step by step: name, connect, tls, versions and sasl for each bootstrap address,
then the brokers that the cluster advertises, then what the principal is allowed to do. Fix the first failure first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from kgm.client.authorized_operations import READ, can_list_all, cluster_operations, is_allowed
from kgm.client.failures import ConnectError, from_code, grant_hint, not_mentioned
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.brokers import refuse_no_brokers
from kgm.client.transport.connection import BrokerConnection, ConnectStep, Security
from kgm.client.transport.deadline import Deadline
from kgm.client.transport.parallel import run_parallel
from kgm.client.version_inference import possible_versions
from kgm.model.broker_version import BrokerVersion, releases_in_words
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

#: The versions of DescribeGroups used here: from v3 on it returns authorized operations.
_GROUP_OPERATIONS_FROM, _GROUP_OPERATIONS_TO = 3, 5


#: Hints for errors that have none.
_HINTS = {
    ConnectStep.NAME: "is the name right? getent hosts {host}",
    ConnectStep.CONNECT: "is the port right, and does a broker listen there? nc -vz {host} {port}; check for firewalls",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCheck:
    """One step. step: name, connect, tls, versions, sasl, broker or authorisation; where: an address, or a resource.

    result: ok, limited (not for all groups or commands), failed, skipped (not configured). error: set if it failed.
    kafka_versions: the Kafka versions that the broker may have, empty if kgm does not know it; None if the step does
    not determine it."""

    step: str
    where: str
    result: str
    detail: str
    took_ms: int | None = None
    error: KgmError | None = None
    kafka_versions: tuple[BrokerVersion, ...] | None = None


@dataclass(slots=True, kw_only=True)
class ConnectionReport:
    """The results, in the order in which the steps were run."""

    checks: list[ConnectionCheck] = field(default_factory=list)
    cluster_id: str | None = None

    @property
    def errors(self) -> tuple[KgmError, ...]:
        return tuple(check.error for check in self.checks if check.error is not None)


class _Steps:
    """Measures the time of each step of opening one connection."""

    def __init__(self) -> None:
        self.begun: list[tuple[ConnectStep, float]] = []

    def __call__(self, step: ConnectStep) -> None:
        self.begun.append((step, time.monotonic()))

    def took_ms(self, index: int, end: float) -> int:
        following = [at for _, at in self.begun[index + 1 : index + 2]]
        return round(((following or [end])[0] - self.begun[index][1]) * 1000)


def run_connection_test(
    bootstrap: Sequence[Address], security: Security, deadline: Deadline, *, group_id: str | None
) -> ConnectionReport:
    """Test every address, broker and permission. Failures are in the report; nothing is raised for them."""
    report = ConnectionReport()
    connection: BrokerConnection | None = None
    for index, address in enumerate(bootstrap):
        opened = _check_address(address, security, deadline.part(1 / (len(bootstrap) - index + 1)), report)
        if connection is None:
            connection = opened
        elif opened is not None:
            opened.close()
    if connection is None:
        return report
    try:
        brokers = _check_brokers(connection, security, deadline, report, set(bootstrap))
        if brokers:
            _check_rights(connection, security, brokers, deadline, report, group_id)
    finally:
        connection.close()
    return report


def _check_address(
    address: Address, security: Security, deadline: Deadline, report: ConnectionReport
) -> BrokerConnection | None:
    steps = _Steps()
    error: KgmError | None = None
    connection: BrokerConnection | None = None
    try:
        connection = BrokerConnection.connect(address, deadline, security, on_step=steps)
    except KgmError as raised:
        error = raised
    end = time.monotonic()
    for index, (step, _) in enumerate(steps.begun):
        failed = _with_hint(error, step, address) if index == len(steps.begun) - 1 else None
        result = "failed" if failed is not None else _result(step, security)
        detail = failed.message if failed is not None else _detail(step, security, connection)
        took = None if result == "skipped" else steps.took_ms(index, end)
        tells = step is ConnectStep.VERSIONS and connection is not None
        check = ConnectionCheck(
            step=step.value, where=str(address), result=result, detail=detail, took_ms=took, error=failed,
            kafka_versions=_kafka_versions(connection) if tells and connection is not None else None,
        )  # fmt: skip
        report.checks.append(check)
    return connection


def _kafka_versions(connection: BrokerConnection) -> tuple[BrokerVersion, ...]:
    return possible_versions(connection.versions, connection.supported_features)


def _version_in_words(versions: tuple[BrokerVersion, ...]) -> str:
    return f"Kafka {releases_in_words(versions)}" if versions else "not a release of Apache Kafka that kgm knows"


def _with_hint(error: KgmError | None, step: ConnectStep, address: Address) -> KgmError | None:
    if error is not None and error.hint is None and step in _HINTS:
        error.hint = _HINTS[step].format(host=address.host, port=address.port)
    return error


def _result(step: ConnectStep, security: Security) -> str:
    used = {ConnectStep.TLS: security.name.endswith("SSL"), ConnectStep.SASL: security.name.startswith("SASL")}
    return "ok" if used.get(step, True) else "skipped"


def _detail(step: ConnectStep, security: Security, connection: BrokerConnection | None) -> str:
    if _result(step, security) == "skipped":
        return f"not used with security.protocol={security.name}"
    match step:
        case ConnectStep.TLS:
            agreed = "" if connection is None else connection.tls_version
            return f"{agreed}, certificate trusted".removeprefix(", ")
        case ConnectStep.SASL:
            mechanism = getattr(security, "mechanism", "")
            return f"{mechanism}: logged in"
        case ConnectStep.VERSIONS:
            if connection is None:
                return ""
            return f"{len(connection.versions)} APIs: {_version_in_words(_kafka_versions(connection))}"
        case ConnectStep.NAME | ConnectStep.CONNECT:
            return ""


# -- the brokers -------------------------------------------------------------------------------------------------------


def _check_brokers(
    connection: BrokerConnection, security: Security, deadline: Deadline, report: ConnectionReport, tried: set[Address]
) -> dict[int, Address]:
    """Connect to each broker that the cluster advertises; returns their addresses, none if the cluster reports none."""
    try:
        version = connection.version(ApiKey.METADATA)
        request = MetadataRequest(topics=[], allow_auto_topic_creation=version < 4)
        answer = connection.call(request, MetadataResponse, version=version, deadline=deadline)
        refuse_no_brokers(answer)
    except KgmError as error:
        where = str(connection.address)
        report.checks.append(
            ConnectionCheck(step="broker", where=where, result="failed", detail=error.message, error=error)
        )
        return {}
    report.cluster_id = answer.cluster_id
    brokers = {row.node_id: Address(row.host, row.port) for row in answer.brokers}
    share = deadline.part(0.6)
    tasks = {
        number: (lambda at=at: _connect_once(at, security, share)) for number, at in brokers.items() if at not in tried
    }
    reached = run_parallel(tasks, share, "a broker") if tasks else {}
    for number, at in sorted(brokers.items()):
        outcome = reached.get(number)
        if isinstance(outcome, KgmError):
            failed = _unreachable_error(outcome, number)
            check = ConnectionCheck(
                step="broker", where=f"{number} {at}", result="failed", detail=failed.message, error=failed
            )
            report.checks.append(check)
        else:
            versions = outcome if outcome is not None else _versions_seen(report, at)
            report.checks.append(_advertised(number, at, versions, is_bootstrap=outcome is None))
    _compare_versions(report)
    return brokers


def _advertised(
    number: int, at: Address, versions: tuple[BrokerVersion, ...] | None, *, is_bootstrap: bool
) -> ConnectionCheck:
    parts = ["as advertised", *(["the bootstrap address"] if is_bootstrap else [])]
    if versions is not None:
        parts.append(_version_in_words(versions))
    return ConnectionCheck(
        step="broker", where=f"{number} {at}", result="ok", detail=", ".join(parts), kafka_versions=versions
    )


def _versions_seen(report: ConnectionReport, at: Address) -> tuple[BrokerVersion, ...] | None:
    """The versions that the broker at a bootstrap address has already reported."""
    return next((one.kafka_versions for one in report.checks if one.where == str(at) and one.kafka_versions), None)


def _compare_versions(report: ConnectionReport) -> None:
    """Add a row if brokers report different versions: each coordinates groups by the rules of its own version."""
    brokers = [check for check in report.checks if check.step == "broker" and check.kafka_versions is not None]
    by_version: dict[str, list[str]] = {}
    for check in brokers:
        by_version.setdefault(_version_in_words(check.kafka_versions or ()), []).append(check.where.partition(" ")[0])
    if len(by_version) > 1:
        each = "; ".join(f"{version}: {', '.join(numbers)}" for version, numbers in by_version.items())
        detail = f"the brokers have different versions ({each}): each group follows that of its coordinator"
        report.checks.append(ConnectionCheck(step="versions", where="Cluster", result="limited", detail=detail))


def _unreachable_error(error: KgmError, number: int) -> KgmError:
    """The error with a hint about advertised.listeners, the usual cause."""
    if not isinstance(error, ConnectError):
        return error
    fact = f"the cluster advertises broker {number} at this address (its advertised.listeners)"
    hint = error.hint or "can this machine reach that address? if not, the broker must advertise another"
    return ConnectError(error.message, facts=(*error.facts, fact), hint=hint)


def _connect_once(address: Address, security: Security, deadline: Deadline) -> tuple[BrokerVersion, ...]:
    """The versions of Kafka that the broker at this address may have."""
    connection = BrokerConnection.connect(address, deadline, security)
    connection.close()
    return _kafka_versions(connection)


# -- rights ------------------------------------------------------------------------------------------------------------


def _check_rights(
    connection: BrokerConnection, security: Security, brokers: dict[int, Address], deadline: Deadline,
    report: ConnectionReport, group_id: str | None,
) -> None:  # fmt: skip
    try:
        report.checks.append(_cluster_rights(connection, deadline, needed=group_id is None))
        if group_id is not None:
            report.checks.append(_group_rights(connection, security, brokers, deadline, group_id))
    except KgmError as error:
        check = ConnectionCheck(
            step="authorisation", where="Cluster", result="failed", detail=error.message, error=error
        )
        report.checks.append(check)


def _cluster_rights(connection: BrokerConnection, deadline: Deadline, *, needed: bool) -> ConnectionCheck:
    if can_list_all(cluster_operations(connection, deadline)):
        detail = "DESCRIBE: list shows every group"
        return ConnectionCheck(step="authorisation", where="Cluster", result="ok", detail=detail)
    version = connection.version(ApiKey.LIST_GROUPS)
    answer = connection.call(ListGroupsRequest(), ListGroupsResponse, version=version, deadline=deadline)
    if answer.groups or not needed:
        detail = "no DESCRIBE: list shows only groups that the principal may DESCRIBE"
        return ConnectionCheck(step="authorisation", where="Cluster", result="limited", detail=detail)
    message = "the principal can see no groups"
    error = AuthorizationError(
        message, facts=("the principal needs DESCRIBE on Cluster 'kafka-cluster', or on the groups",),
        hint=f"{grant_hint('--operation Describe --cluster (or --group GROUP)')}; then kgm config test -g GROUP",
    )  # fmt: skip
    return ConnectionCheck(step="authorisation", where="Cluster", result="failed", detail=message, error=error)


def _group_rights(
    connection: BrokerConnection, security: Security, brokers: dict[int, Address], deadline: Deadline, group_id: str
) -> ConnectionCheck:
    """DESCRIBE for list, describe and simulate-bounce; READ for remove-members."""
    where = f"Group {group_id!r}"
    find = FindCoordinatorRequest(key=group_id)
    version = connection.version(ApiKey.FIND_COORDINATOR, at_most=3)
    answer = connection.call(find, FindCoordinatorResponse, version=version, deadline=deadline)
    code, operations = answer.error_code, 0
    if not code:
        at = brokers.get(answer.node_id, Address(answer.host, answer.port))
        code, operations = _describe_operations(at, security, deadline, group_id)
    if code:
        doing = f"group {group_id!r} cannot be described"
        error = from_code(code, doing, api="DescribeGroups", group_id=group_id)
        return ConnectionCheck(step="authorisation", where=where, result="failed", detail=error.message, error=error)
    if is_allowed(operations, READ):
        detail = "DESCRIBE and READ: every command may be used"
        return ConnectionCheck(step="authorisation", where=where, result="ok", detail=detail)
    detail = "DESCRIBE: describe and simulate-bounce may be used; remove-members needs READ"
    return ConnectionCheck(step="authorisation", where=where, result="limited", detail=detail)


def _describe_operations(at: Address, security: Security, deadline: Deadline, group_id: str) -> tuple[int, int]:
    """(error code, authorized operations) of a group at its coordinator. The group need not exist."""
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
