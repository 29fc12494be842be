"""ListGroups: the groups of one broker (v0-5), and the listing of a whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kgm.client.failures import ConnectError, LostError, from_code, is_retriable
from kgm.client.transport.brokers import TAKEOVER_S, BrokerNode, Brokers
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError, UnreachableError
from kgm.protocol.apis import ApiKey

_STATE_FILTER, _TYPE_FILTER = 4, 5
#: Group states in Kafka's own spelling: brokers before 4.0 compare the filter case-sensitively.
STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
_BY_LOWER = {state.lower(): state for state in STATES}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One row of a listing. state needs Kafka 2.6 (KIP-518), type needs 4.0 (KIP-848); None in older versions."""

    group_id: str
    protocol_type: str | None
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The groups that this principal is allowed to see, by id, and the errors of individual brokers."""

    groups: tuple[ListedGroup, ...]
    errors: tuple[KgmError, ...]


def list_everywhere(
    brokers: Brokers, states: set[str], types: set[str], deadline: Deadline
) -> tuple[dict[BrokerNode, list[ListedGroup]], list[KgmError]]:
    """(what each broker of the cluster listed last, why others could not be listed); all are asked at the same time.

    A broker that is not reached, or refuses for the moment, is asked again until the deadline, or until the cluster's
    metadata no longer has it: a broker that has died stays there until its session ends. Then all are asked once more,
    because the groups of that broker have moved to those that had answered before. states, types: as in
    `list_groups`."""

    def task(broker: BrokerNode) -> Callable[[], list[ListedGroup]]:
        return lambda: brokers.on_broker(broker, lambda one: list_groups(one, states, types, deadline), deadline)

    listed: dict[BrokerNode, list[ListedGroup]] = {}
    errors: dict[BrokerNode, KgmError] = {}

    def ask(nodes: Iterable[BrokerNode]) -> None:
        for broker, answer in brokers.ask_each({one: task(one) for one in nodes}, deadline, "a broker").items():
            errors.pop(broker, None)
            if isinstance(answer, KgmError):
                errors[broker] = answer
            else:
                listed[broker] = answer

    ask(brokers.brokers())
    attempt = 0
    while any(map(is_retriable, errors.values())) and brokers.may_ask_again(deadline, attempt):
        attempt += 1
        try:
            brokers.metadata((), deadline)
        except (ConnectError, LostError):
            continue  # nobody answers right now: perhaps a restart
        current = brokers.brokers()
        for gone in (listed.keys() | errors.keys()).difference(current):
            listed.pop(gone, None)
            errors.pop(gone, None)
        ask(one for one in current if one not in listed or is_retriable(errors.get(one)))
        if not any(map(is_retriable, errors.values())):
            deadline.sleep(TAKEOVER_S)
            ask(current)
    return listed, [_error_in_vain(broker, error, deadline) for broker, error in errors.items()]


def _error_in_vain(broker: BrokerNode, error: KgmError, deadline: Deadline) -> KgmError:
    """The error of a broker that was asked until the deadline if it can be asked again; otherwise its answer."""
    if not is_retriable(error) or isinstance(error, UnreachableError):
        return error
    return UnreachableError(
        f"broker {broker.address} did not list its groups within {deadline.budget_ms} ms",
        facts=(f"last: {error.message}", *error.facts), hint="try a longer --timeout", kafka_error=error.kafka_error,
    )  # fmt: skip


def list_groups(
    connection: BrokerConnection, states: set[str], types: set[str], deadline: Deadline
) -> list[ListedGroup]:  # fmt: skip
    """The groups that a broker coordinates. states, types: in lower case; old brokers do not filter.

    Raises KgmError."""
    from kgm.protocol.messages.list_groups_request import ListGroupsRequest
    from kgm.protocol.messages.list_groups_response import ListGroupsResponse

    version = connection.version(ApiKey.LIST_GROUPS)
    request = ListGroupsRequest(
        # A state unknown to kgm may be spelled in any way.
        states_filter=sorted(_BY_LOWER[state] for state in states)
        if version >= _STATE_FILTER and states <= _BY_LOWER.keys()
        else [],
        types_filter=sorted(types) if version >= _TYPE_FILTER else [],
    )
    answer = connection.call(request, ListGroupsResponse, version=version, deadline=deadline)
    if answer.error_code:
        raise from_code(
            answer.error_code, f"broker {connection.address} does not list its groups",
            broker=str(connection.address), api="ListGroups",
        )  # fmt: skip
    return [
        ListedGroup(
            group_id=row.group_id,
            protocol_type=row.protocol_type,
            state=row.group_state or None,
            type=row.group_type.lower() or None,
        )
        for row in answer.groups
    ]
