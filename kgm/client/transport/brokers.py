"""The brokers of a cluster: who they are, open connections to them, and who coordinates which group.

Every request goes through `on_any`, `on_broker` or `on_coordinators`; the last retries until the deadline while a
coordinator moves, loads or is down, and asks different brokers at the same time. So does `group_listing`, with
every broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller
from typing import TypeVar

from kgm.client.failures import (
    MOVED,
    ConnectError,
    LostError,
    OtherClusterError,
    from_code,
    is_retriable,
    not_mentioned,
)
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.connection import BrokerConnection, Security
from kgm.client.transport.deadline import Deadline
from kgm.client.transport.parallel import first_of, run_parallel
from kgm.model.errors import AuthenticationError, ErrorCode, KgmError, UnreachableError
from kgm.model.snapshot import CoordinatorNode
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.metadata_response import MetadataResponse

T = TypeVar("T")

#: Seconds after which the next bootstrap address is tried in parallel with one that has not answered yet.
STAGGER_S = 0.25
#: How long a coordinator that has just taken over may return outdated descriptions of groups (see `fresh_describe`).
TAKEOVER_S = 1.0
#: Seconds reserved for finding out why a coordinator is not available; trying gets at least this share of the time.
_EXPLANATION_S = 0.5
_TRYING_SHARE = 0.8
_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 1.0
#: Groups in one request.
_CHUNK = 500
_FIND_BATCHED = 4


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker as the cluster advertises it. rack: its `broker.rack`; None if it has none, or is not known."""

    id: int
    address: Address
    rack: str | None = None


def backoff(attempt: int) -> float:
    """Seconds to wait after attempt 0, 1, 2...: doubling from 0.1 to 1, with 20 % of jitter either way."""
    import random  # needed only for a retry

    span = min(_BACKOFF_MAX_S, _BACKOFF_S * (1 << min(attempt, 10)))
    return span * random.uniform(0.8, 1.2)  # noqa: S311  (not used for secrets)


class Brokers:
    """Connections by address, the cluster's own list of brokers, and coordinators by group."""

    def __init__(self, bootstrap: Sequence[Address], security: Security) -> None:
        self.bootstrap = tuple(bootstrap)
        self.cluster_id: str | None = None
        self._security = security
        self._lock = threading.Lock()
        self._connections: dict[Address, BrokerConnection] = {}
        self._brokers: dict[int, BrokerNode] = {}
        self._coordinators: dict[str, BrokerNode] = {}
        self._described: dict[int, tuple[BrokerNode, CoordinatorNode]] = {}
        self._refused_at: dict[str, float] = {}
        self._any: Address | None = None
        self._is_bound = False
        #: See `hurry`.
        self.is_hurried = False
        self._silent: dict[BrokerNode, KgmError] = {}
        self._closed = False

    def bind(self) -> None:
        """From now on, talk only to the cluster that has answered: each connection has to report that cluster's id
        before anything else is sent on it. After a broken connection, a port-forward, a DNS name or a virtual address
        may lead elsewhere, and a request that changes a group must not follow it there."""
        self._is_bound = True

    def _of_this_cluster(self, connection: BrokerConnection, deadline: Deadline) -> BrokerConnection:
        """The connection, once it is known to lead to the cluster that this client is bound to. Raises
        OtherClusterError and closes the connection if it leads elsewhere; other KgmErrors if the broker does not report
        its cluster."""
        if self._is_bound:
            if connection.cluster_id is None:
                _ask_metadata(connection, (), deadline)
            self._check_cluster(connection)
        return connection

    def _check_cluster(self, connection: BrokerConnection) -> None:
        if self._is_bound and connection.cluster_id != (self.cluster_id or ""):
            connection.close()
            raise OtherClusterError(str(connection.address), expected=self.cluster_id, found=connection.cluster_id)

    def close(self) -> None:
        """Close every connection, including any that a late thread has yet to open."""
        with self._lock:
            self._closed = True
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()

    def start(self, deadline: Deadline) -> None:
        """Reach any bootstrap address and find out who the brokers are. Raises KgmError."""
        try:
            self.metadata((), deadline)
        except LostError as error:
            raise self._sasl_required_error(deadline) or error from None

    def _sasl_required_error(self, deadline: Deadline) -> AuthenticationError | None:
        """The error for a listener that answers ApiVersions and closes the connection on the next request because it
        requires SASL; None if it does not."""
        if self._security.name.startswith("SASL"):
            return None
        from kgm.client.transport.sasl_listener import offered_mechanisms

        try:
            connection = self._any_connection(deadline.within(2))
            mechanisms = offered_mechanisms(connection, deadline.within(2))
        except KgmError:
            return None
        return AuthenticationError(
            f"{connection.address}: this listener requires SASL; no credentials are configured",
            facts=(f"it offers {', '.join(mechanisms)}",),
            hint=f"set security.protocol=SASL_{self._security.name}, sasl.mechanism and sasl.jaas.config in a "
            "--command-config file",
        ) if mechanisms else None  # fmt: skip

    # -- connections ---------------------------------------------------------------------------------------------------

    def connection(self, address: Address, deadline: Deadline) -> BrokerConnection:
        """An open connection to an address. Raises KgmError."""
        with self._lock:
            open_one = self._connections.get(address)
        if open_one is not None and not open_one.closed:
            try:
                return self._of_this_cluster(open_one, deadline)
            except LostError:
                pass  # it was dead: open a new one
        return self._of_this_cluster(
            self._keep(BrokerConnection.connect(address, deadline, self._security)), deadline
        )  # fmt: skip

    def _keep(self, fresh: BrokerConnection) -> BrokerConnection:
        with self._lock:
            open_one = self._connections.get(fresh.address)
            if not self._closed and (open_one is None or open_one.closed):
                self._connections[fresh.address] = fresh
                return fresh
        fresh.close()
        return open_one or fresh

    def _any_connection(self, deadline: Deadline) -> BrokerConnection:
        """A connection to any broker: the one used before, if it is still open, otherwise the first that answers.

        Raises KgmError."""
        if self._any is not None:
            with self._lock:
                open_one = self._connections.get(self._any)
            if open_one is not None and not open_one.closed:
                return open_one
        candidates = list(dict.fromkeys([*self.bootstrap, *(broker.address for broker in self.brokers())]))
        tasks = [self._task(address, deadline) for address in candidates]
        outcome = first_of(tasks, deadline, stagger=STAGGER_S, discard=methodcaller("close"))
        if isinstance(outcome, list):
            raise _unreachable_error(self.bootstrap, outcome, deadline)
        self._any = outcome.address
        return self._keep(outcome)

    def _task(self, address: Address, deadline: Deadline) -> Callable[[], BrokerConnection]:
        return lambda: BrokerConnection.connect(address, deadline, self._security)

    # -- patience ------------------------------------------------------------------------------------------------------

    def hurry(self) -> None:
        """From now on, ask only once: what a broker refuses for the moment is an error, and a broker that does not
        answer is not asked again."""
        self.is_hurried = True

    def take_time(self) -> None:
        """The opposite of `hurry`."""
        self.is_hurried = False
        self._silent.clear()

    @contextmanager
    def in_a_hurry(self) -> Iterator[None]:
        """Hurry in this block: for callers that ask again later anyway."""
        self.hurry()
        try:
            yield
        finally:
            self.take_time()

    def may_ask_again(self, deadline: Deadline, attempt: int) -> bool:
        """Wait before what was refused or lost is asked for again; attempt: as in `backoff`. Returns whether there is
        time for that; False at once in a hurry."""
        if not self.is_hurried:
            deadline.back_off(backoff(attempt))
        return not self.is_hurried and not deadline.expired

    def ask_each(
        self, tasks: Mapping[BrokerNode, Callable[[], T]], deadline: Deadline, what: str
    ) -> dict[BrokerNode, T | KgmError]:
        """The result of each task, which asks this broker; all run at the same time: see `run_parallel`."""
        silent: dict[BrokerNode, T | KgmError] = {one: self._silent[one] for one in tasks if one in self._silent}
        results = run_parallel({one: task for one, task in tasks.items() if one not in silent}, deadline, what)
        if self.is_hurried:
            self._silent |= {one: error for one, error in results.items() if isinstance(error, UnreachableError)}
        return silent | results

    # -- any broker ----------------------------------------------------------------------------------------------------

    def brokers(self) -> tuple[BrokerNode, ...]:
        """The brokers that the cluster last advertised."""
        return tuple(self._brokers[key] for key in sorted(self._brokers))

    def on_any(self, ask: Callable[[BrokerConnection], T], deadline: Deadline) -> T:
        """Ask any broker; a connection that breaks is replaced until the deadline. Raises KgmError."""
        attempt = 0
        while True:
            connection = self._any_connection(deadline)
            try:
                return ask(self._of_this_cluster(connection, deadline))
            except LostError:
                self._any = None
                if deadline.expired or attempt >= 4:
                    raise
            deadline.back_off(backoff(attempt))
            attempt += 1

    def metadata(self, topics: Sequence[str] | None, deadline: Deadline) -> MetadataResponse:
        """The brokers, and the topics requested (none for an empty list). Remembers the brokers. Raises KgmError."""

        def ask(connection: BrokerConnection) -> MetadataResponse:
            answer = _ask_metadata(connection, topics, deadline)
            self._check_cluster(connection)
            return answer

        answer = self.on_any(ask, deadline)
        self.cluster_id = answer.cluster_id
        self._brokers = {
            row.node_id: BrokerNode(row.node_id, Address(row.host, row.port), row.rack or None)
            for row in answer.brokers
        }
        return answer

    # -- one broker ----------------------------------------------------------------------------------------------------

    def on_broker(self, broker: BrokerNode, ask: Callable[[BrokerConnection], T], deadline: Deadline) -> T:
        """Ask one broker, and once more if an already open connection turns out to be dead. Raises KgmError."""
        for last in (False, True):
            connection = self._to(broker, deadline)
            try:
                return ask(connection)
            except LostError:
                if last or deadline.expired:
                    raise
        raise AssertionError("unreachable")

    def _to(self, broker: BrokerNode, deadline: Deadline) -> BrokerConnection:
        try:
            return self.connection(broker.address, deadline)
        except ConnectError as error:
            if broker.address in self.bootstrap:
                raise
            fact = f"the cluster advertises broker {broker.id} at this address: can this machine reach it?"
            raise ConnectError(error.message, facts=(*error.facts, fact), hint=error.hint) from error

    # -- coordinators --------------------------------------------------------------------------------------------------

    def coordinator(self, group_id: str) -> CoordinatorNode | None:
        """The coordinator that last answered for a group."""
        broker = self._coordinators.get(group_id)
        if broker is None:
            return None
        known = self._described.get(broker.id)
        if known is None or known[0] is not broker:  # one object for all groups of the same broker
            node = CoordinatorNode(id=broker.id, host=broker.address.host, port=broker.address.port)
            known = self._described[broker.id] = (broker, node)
        return known[1]

    def has_moved(self, group_id: str, since_s: float) -> bool:
        """Whether the group had a different coordinator, or none, after this time (on the monotonic clock), or so
        shortly before it that the current one may return an outdated description. Covers only what this client has
        noticed."""
        at = self._refused_at.get(group_id)
        return at is not None and at > since_s - TAKEOVER_S

    def remember_listed(self, group_ids: Iterable[str], broker: BrokerNode, *, also_listed: Container[str]) -> None:
        """A broker lists the groups that it coordinates, so there is no need to look up their coordinator; if the
        coordinator has moved since, it refuses the next request. A group that another broker lists too is moving, and
        is looked up."""
        for group_id in group_ids:
            if group_id in also_listed:
                self._coordinators.pop(group_id, None)
            else:
                self._coordinators[group_id] = broker

    def forget_coordinators(self, group_ids: Iterable[str]) -> None:
        """Look up the coordinators of these groups again before the next request."""
        for group_id in group_ids:
            self._coordinators.pop(group_id, None)

    def find_coordinators(self, group_ids: Sequence[str], deadline: Deadline) -> dict[str, BrokerNode | KgmError]:
        """The coordinator of each group, remembered or looked up now, in a single attempt. Raises KgmError."""
        unknown = [group_id for group_id in group_ids if group_id not in self._coordinators]
        results: dict[str, BrokerNode | KgmError] = {}
        for start in range(0, len(unknown), _CHUNK):
            chunk = unknown[start : start + _CHUNK]

            def find(connection: BrokerConnection, chunk: list[str] = chunk) -> dict[str, BrokerNode | KgmError]:
                return _find_coordinators(connection, chunk, deadline)

            results.update(self.on_any(find, deadline))
        for group_id, broker in results.items():
            if isinstance(broker, BrokerNode):
                self._coordinators[group_id] = broker
        return {group_id: results.get(group_id) or self._coordinators[group_id] for group_id in group_ids}

    def on_coordinators(
        self, group_ids: Sequence[str], ask: Callable[[BrokerConnection, list[str]], dict[str, T | KgmError]],
        deadline: Deadline,
    ) -> dict[str, T | KgmError]:  # fmt: skip
        """Ask the coordinator of each group, all coordinators at the same time; returns one result or error per group.

        `ask` gets a connection and that broker's groups. Groups answered with a retriable KgmError, and all groups of a
        lost connection, are asked about again until the deadline. Only for requests that change nothing."""
        done: dict[str, T | KgmError] = {}
        broker_errors: dict[str, KgmError] = {}
        pending = list(dict.fromkeys(group_ids))
        trying = deadline.within(max(deadline.remaining() - _EXPLANATION_S, deadline.remaining() * _TRYING_SHARE))
        attempt = 0
        while True:
            round_of = self._one_round(pending, ask, deadline)
            done.update(round_of)
            pending = [group_id for group_id in pending if is_retriable(round_of[group_id])]
            self.forget_coordinators(group_id for group_id in pending if _may_have_moved(round_of[group_id]))
            for group_id in pending:  # a broker's error explains more than the timeout that came last
                self._refused_at[group_id] = time.monotonic()
                error = round_of[group_id]
                if isinstance(error, KgmError) and (error.kafka_error or group_id not in broker_errors):
                    broker_errors[group_id] = error
            if not pending or not self.may_ask_again(trying, attempt):
                break
            attempt += 1
        if not pending:
            return done
        from kgm.client.transport import missing_coordinator  # needed only if something is wrong

        last = {group_id: broker_errors[group_id] for group_id in pending}
        topic = missing_coordinator.look_up(last.values(), lambda: self.metadata([missing_coordinator.TOPIC], deadline))
        in_vain = {one: missing_coordinator.error_in_vain(one, error, topic, deadline) for one, error in last.items()}
        return {**done, **in_vain}

    def _one_round(
        self, group_ids: Sequence[str], ask: Callable[[BrokerConnection, list[str]], dict[str, T | KgmError]],
        deadline: Deadline,
    ) -> dict[str, T | KgmError]:  # fmt: skip
        coordinators: dict[str, BrokerNode | KgmError]
        try:
            coordinators = self.find_coordinators(group_ids, deadline)
        except (ConnectError, LostError) as error:  # no broker is answering right now: perhaps a restart
            coordinators = dict.fromkeys(group_ids, error)
        by_broker: dict[BrokerNode, list[str]] = {}
        results: dict[str, T | KgmError] = {}
        last, ids = None, []
        for group_id, broker in coordinators.items():
            if isinstance(broker, BrokerNode):
                if broker is not last:  # a dict lookup takes longer than everything else here
                    last, ids = broker, by_broker.setdefault(broker, [])
                ids.append(group_id)
            else:
                results[group_id] = broker
        tasks = {
            broker: (lambda broker=broker, ids=ids: self._ask_chunks(broker, ids, ask, deadline))
            for broker, ids in by_broker.items()
        }
        if tasks:
            for broker, answer in self.ask_each(tasks, deadline, "the coordinator").items():
                for group_id in by_broker[broker]:
                    if isinstance(answer, KgmError):
                        results[group_id] = answer
                    elif group_id in answer:
                        results[group_id] = answer[group_id]
                    else:
                        results[group_id] = not_mentioned(group_id, str(broker.address))
        return results

    def _ask_chunks(
        self, broker: BrokerNode, group_ids: list[str],
        ask: Callable[[BrokerConnection, list[str]], dict[str, T | KgmError]], deadline: Deadline,
    ) -> dict[str, T | KgmError]:  # fmt: skip
        results: dict[str, T | KgmError] = {}
        for start in range(0, len(group_ids), _CHUNK):
            chunk = group_ids[start : start + _CHUNK]
            results.update(ask(self._to(broker, deadline), chunk))
        return results


def _ask_metadata(
    connection: BrokerConnection, topics: Sequence[str] | None, deadline: Deadline
) -> MetadataResponse:  # fmt: skip
    """Metadata, which reports which cluster a connection leads to. Raises KgmError."""
    version = connection.version(ApiKey.METADATA)
    rows = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=rows, allow_auto_topic_creation=version < 4)
    answer = connection.call(request, MetadataResponse, version=version, deadline=deadline)
    refuse_no_brokers(answer)
    connection.cluster_id = answer.cluster_id or ""
    return answer


def _find_coordinators(
    connection: BrokerConnection, group_ids: Sequence[str], deadline: Deadline
) -> dict[str, BrokerNode | KgmError]:
    version = connection.version(ApiKey.FIND_COORDINATOR)

    def call(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return connection.call(request, FindCoordinatorResponse, version=version, deadline=deadline)

    def result(group_id: str, code: int, text: str | None, broker: BrokerNode) -> BrokerNode | KgmError:
        if not code:
            return broker
        return from_code(
            code, f"the coordinator of group {group_id!r} cannot be looked up", broker=str(connection.address),
            api="FindCoordinator", group_id=group_id, text=text,
        )  # fmt: skip

    if version >= _FIND_BATCHED:
        rows = {row.key: row for row in call(FindCoordinatorRequest(coordinator_keys=list(group_ids))).coordinators}
        results = {}
        for group_id in group_ids:
            row = rows.get(group_id)
            if row is None:
                code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                results[group_id] = result(group_id, code, "no answer for this group", BrokerNode(-1, Address("", 0)))
            else:
                broker = BrokerNode(row.node_id, Address(row.host, row.port))
                results[group_id] = result(group_id, row.error_code, row.error_message, broker)
        return results
    results = {}
    for group_id in group_ids:
        one = call(FindCoordinatorRequest(key=group_id))
        broker = BrokerNode(one.node_id, Address(one.host, one.port))
        results[group_id] = result(group_id, one.error_code, one.error_message, broker)
    return results


def _may_have_moved(result: object) -> bool:
    """Whether a different broker may be the coordinator now."""
    return isinstance(result, (LostError, ConnectError)) or (
        isinstance(result, KgmError) and result.kafka_error in MOVED
    )


def refuse_no_brokers(answer: MetadataResponse) -> None:
    """Raises KgmError for an answer that is an error or names no broker, as in a cluster that is starting."""
    if answer.error_code:
        raise from_code(answer.error_code, "the cluster does not report its brokers", api="Metadata")
    if not answer.brokers:
        hint = "the cluster may be starting: try again"
        raise UnreachableError("the cluster does not report its brokers", facts=("Metadata names none",), hint=hint)


def _unreachable_error(bootstrap: Sequence[Address], failures: list[KgmError], deadline: Deadline) -> KgmError:
    # A failed login or a wrong protocol explains more than a broker that does not answer.
    for error in failures:
        if isinstance(error, AuthenticationError) or not isinstance(error, (ConnectError, LostError)):
            return error
    names = ",".join(map(str, bootstrap))
    facts = [f"{error.message}" + "".join(f" ({fact})" for fact in error.facts) for error in failures]
    hints = [error.hint for error in failures if error.hint]
    hint = hints[0] if hints else "check the address and that a broker listens there"
    if not facts:
        facts = [f"no answer within {deadline.budget_ms} ms, and nothing refused the connection"]
        hint = f"see how far it gets: kgm config test -b {names}"
    return ConnectError(f"no broker can be reached at {names}", facts=facts, hint=hint)
