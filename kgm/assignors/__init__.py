"""Who gets which partitions: Kafka's assignors, six of them, as functions.

`range`, `roundrobin`, `sticky` and `cooperative-sticky` run in the client that leads a classic group; `consumer-range`
and `consumer-uniform` run in the coordinator of a KIP-848 group. All are pure: a `GroupSpec` in, partitions by member
and topic out, the same today and tomorrow. They answer what Kafka 4.3.0 answers, to the partition, because who keeps
what in a bounce hangs on details: on the order of static and dynamic members, on ties between equally loaded members,
and in the sticky ones on the order of a Java hash map, which `java` computes from the member ids.

Clients built on librdkafka bring assignors of their own under the same names (`librdkafka`); whose answer counts
depends on which member leads.

An assignor numbers the partitions of the topics it deals with (`layout`) and works on integers; names come back at the
end (`answers`). What client-side ones know of topics is what somebody subscribes to; the rest is left out.

    spec      what goes in            range, round_robin    one module each, as in Kafka
    layout    partitions as numbers   sticky                eager and cooperative; _claims, _even, _mixed, _moves
    answers   what comes out          uniform, server_range the coordinator's; _mixed for unequal subscriptions
    java      hashes and hash maps    librdkafka            what its consumers answer as leaders
    case      groups written as JSON  custom                assignors of somebody's own, by entry points
    foreign   groups that are refused: Kafka Streams, Connect, share groups
"""

from collections.abc import Callable
from typing import Final

from kgm.assignors.client import librdkafka
from kgm.assignors.client.range import assign_range
from kgm.assignors.client.round_robin import assign_round_robin
from kgm.assignors.client.sticky import assign_cooperative_sticky, assign_sticky
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec, TopicSpec
from kgm.assignors.server.range import assign_server_range
from kgm.assignors.server.uniform import assign_uniform
from kgm.model.errors import UsageError

__all__ = [
    "LIBRARIES", "NAMES", "Assigned", "GroupSpec", "MemberSpec", "TopicSpec", "assign", "is_cooperative", "is_known",
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


#: Whose client leads the group; `consumer-*` run in the coordinator and do not depend on it.
LIBRARIES: Final = ("java", "librdkafka")


def assign(name: str, group: GroupSpec, library: str = "java") -> Assigned:
    """Partitions by member id and topic: every member, no empty topic, partitions sorted.

    name: a built-in assignor, or one that is installed beside kgm (`custom`), which runs whatever the library is.
    Raises UsageError for an assignor (or a library) that kgm does not know, for `sticky` in librdkafka, which has none,
    and from `consumer-*` for a topic that is not there; RefusedError for Kafka Streams' assignor; AssignorError for an
    installed one that is broken."""
    if library not in LIBRARIES:
        raise UsageError(f"library {library!r} is not known", hint=f"known are {', '.join(LIBRARIES)}")
    assignor = _ASSIGNORS.get(name)
    if assignor is None:
        return _assign_custom(name, group)
    if library == "librdkafka" and not name.startswith("consumer-"):
        assignor = librdkafka.ASSIGNORS.get(name)
        if assignor is None:
            raise UsageError(f"librdkafka has no assignor {name!r}", hint=f"it has {', '.join(librdkafka.ASSIGNORS)}")
    return assignor(group)


def _assign_custom(name: str, group: GroupSpec) -> Assigned:
    from kgm.assignors import custom
    from kgm.assignors.unsupported_groups import refuse_streams

    refuse_streams(name)
    assignor = custom.find(name)
    if assignor is None:
        known = ", ".join([*NAMES, *custom.installed()])
        raise UsageError(
            f"assignor {name!r} is not known",
            hint=f"known are {known}; an assignor of your own joins them by an entry point {custom.ENTRY_POINTS!r}",
        )
    return custom.run(name, assignor, group)


def is_known(name: str) -> bool:
    """Whether `assign` has an assignor of this name, built in or installed. Raises AssignorError for a broken one."""
    return name in _ASSIGNORS or _is_installed(name)


def is_cooperative(name: str) -> bool:
    """Whether members of the group keep their partitions while it rebalances (KIP-429). Raises as `is_known`."""
    if name in _ASSIGNORS:
        return name == "cooperative-sticky"
    return _is_installed(name, cooperative=True)


def _is_installed(name: str, *, cooperative: bool = False) -> bool:
    from kgm.assignors import custom
    from kgm.assignors.unsupported_groups import STREAMS

    assignor = None if name == STREAMS else custom.find(name)
    return assignor is not None and (not cooperative or bool(assignor.is_cooperative))
