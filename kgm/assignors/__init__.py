"""Kafka's six assignors, and the assignors of client libraries, as pure functions: a `GroupSpec` in, partitions by
member and topic out.

`range`, `roundrobin`, `sticky` and `cooperative-sticky` run in the client that leads a classic group; `consumer-range`
and `consumer-uniform` run in the coordinator of a consumer group (KIP-848). They give exactly the same results as Kafka
4.3.0, because what moves in a bounce depends on details: the order of static and dynamic members, ties between equally
loaded members, and, for the sticky assignors, the order of a Java hash map, which `kgm.java` computes from the member
ids.

Other client libraries have their own assignors with the same names. Which one runs depends on the leader.

An assignor numbers the partitions of its topics (`partition_numbers`), works on integers, and converts them back to
names at the end (`result`). Client-side assignors leave out topics that no member subscribes to.

- `contract`: what goes in and what comes out
- `client/`: `range`, `round_robin`, `sticky` and its parts, and `librdkafka`: assignors that run in the leader
- `libraries/`: the assignors of other client libraries
- `server/`: `range`, `uniform` (`uniform_heterogeneous` for different subscriptions): assignors that run in the
  coordinator; `broker_view`: the order in which it passes members and topics to them; `streams_tasks`: the assignor of
  streams groups (KIP-1071)
- `custom`: assignors that are installed alongside kgm, found through entry points
- `json_cases`: groups as JSON, for `kgm assign`; `unsupported_groups`: Kafka Streams, Connect, share groups
"""

from collections.abc import Callable
from typing import Final

from kgm.assignors import custom
from kgm.assignors.client.range import assign_range
from kgm.assignors.client.round_robin import assign_round_robin
from kgm.assignors.client.sticky import assign_cooperative_sticky, assign_sticky
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec, TopicSpec
from kgm.assignors.libraries import ASSIGNORS as _OF_LIBRARIES
from kgm.assignors.server.range import assign_server_range
from kgm.assignors.server.uniform import assign_uniform
from kgm.assignors.unsupported_groups import refuse_streams
from kgm.model.client_library import JAVA
from kgm.model.errors import UsageError
from kgm.model.work import STREAMS_ASSIGNOR

__all__ = [
    "LIBRARIES", "NAMES", "Assigned", "GroupSpec", "MemberSpec", "TopicSpec", "assign", "has_assignor",
    "is_cooperative", "is_known",
]  # fmt: skip

_ASSIGNORS: Final[dict[str, Callable[[GroupSpec], Assigned]]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
    "consumer-uniform": assign_uniform,
    "consumer-range": assign_server_range,
}
NAMES: Final = tuple(_ASSIGNORS)


#: The client libraries whose assignors kgm has; `consumer-*` run in the coordinator and do not depend on the library.
LIBRARIES: Final = (JAVA, *_OF_LIBRARIES)


def assign(name: str, group: GroupSpec, library: str = JAVA) -> Assigned:
    """Partitions by member id and topic: every member, no empty topic, partitions sorted.

    name: a built-in assignor, or one that is installed alongside kgm (`custom`), for which the library does not matter.
    Raises UsageError for an unknown assignor or library, for an assignor that kgm does not have for the library, and
    from `consumer-*` for a topic that does not exist; RefusedError for the assignor of Kafka Streams; AssignorError for
    an installed assignor that is broken."""
    if library not in LIBRARIES:
        raise UsageError(f"library {library!r} is not known", hint=f"known: {', '.join(LIBRARIES)}")
    assignor = _ASSIGNORS.get(name)
    if assignor is None:
        return _assign_custom(name, group)
    if library != JAVA and not name.startswith("consumer-"):
        theirs = _OF_LIBRARIES[library]
        if name not in theirs:
            raise UsageError(f"kgm has no assignor {name!r} for {library}", hint=f"known: {', '.join(theirs)}")
        assignor = theirs[name]
    return assignor(group)


def has_assignor(library: str | None, name: str) -> bool:
    """Whether kgm has the assignor that this library runs under this name. library: None if it is not known."""
    if library == JAVA:
        return name in _ASSIGNORS
    return library in _OF_LIBRARIES and name in _OF_LIBRARIES[library]


def _assign_custom(name: str, group: GroupSpec) -> Assigned:
    refuse_streams(name)
    assignor = custom.find(name)
    if assignor is None:
        known = ", ".join([*NAMES, *custom.installed()])
        raise UsageError(
            f"assignor {name!r} is not known",
            hint=f"known: {known}; a custom assignor is installed with an entry point {custom.ENTRY_POINTS!r}",
        )
    return custom.run(name, assignor, group)


def is_known(name: str) -> bool:
    """Whether `assign` has an assignor with this name, built in or installed. Raises AssignorError for a broken one."""
    return name in _ASSIGNORS or _is_installed(name)


def is_cooperative(name: str) -> bool:
    """Whether members keep their partitions while the group rebalances (KIP-429). Raises what `is_known` raises."""
    if name in _ASSIGNORS:
        return name == "cooperative-sticky"
    return _is_installed(name, cooperative=True)


def _is_installed(name: str, *, cooperative: bool = False) -> bool:
    assignor = None if name == STREAMS_ASSIGNOR else custom.find(name)
    return assignor is not None and (not cooperative or bool(assignor.is_cooperative))
