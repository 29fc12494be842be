"""ListGroups: the groups of one broker (v0-5), and the listing of a whole cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kgm.client.failures import from_code
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError
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
