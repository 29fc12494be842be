"""For which assignors the members of a group ask, which no API returns: in a classic group all that a member lists
(`partition.assignment.strategy`), in a consumer group one of the broker's (`group.remote.assignor`)."""

from kgm.model.client_library import LIBRDKAFKA
from kgm.model.snapshot import GroupSnapshot
from kgm.model.work import STREAMS_ASSIGNOR


def has_known_votes(snapshot: GroupSnapshot, stated: str | None) -> bool:
    """Whether all members are known to ask for the group's assignor, and in a classic group for no other. stated: the
    one that an operator names."""
    # A group without a coordinator is made up, and so are its members.
    return stated is not None or snapshot.coordinator is None or _can_list_only_one(snapshot)


def _can_list_only_one(snapshot: GroupSnapshot) -> bool:
    """Whether no member of a classic group can list more than one assignor: Kafka Streams has one, and librdkafka
    refuses to combine its only cooperative one with others (rd_kafka_assignors_init)."""
    if snapshot.type != "classic":
        return False
    libraries = [member.client_library for member in snapshot.members]
    are_librdkafka = all(one is not None and {*one.candidates} == {LIBRDKAFKA} for one in libraries)
    return snapshot.assignor == STREAMS_ASSIGNOR or (snapshot.assignor == "cooperative-sticky" and are_librdkafka)


def may_lose_votes(assignor: str, default: str, *, has_known_votes: bool) -> bool:
    """Whether a consumer group may change to the broker's default assignor when members leave: some have asked for the
    present one, but not necessarily those that stay. With the default most members are taken not to ask for any."""
    return not has_known_votes and assignor != default


def other_assignors(snapshot: GroupSnapshot, stated: str | None) -> tuple[str, ...]:
    """Assignors that members of a classic group list, or have listed, besides the one that it uses. stated: the one
    that an operator names as the only one."""
    return () if has_known_votes(snapshot, stated) else snapshot.earlier_assignors or ()


def same_lists(assignor: str) -> str:
    """What is taken for granted of a classic group with this assignor. A broker chooses among those that all members
    list, and each member votes for the first of these in its list (Kafka: ClassicGroup.selectProtocol)."""
    return (
        "all members are taken to list the same assignors in the same order (partition.assignment.strategy): "
        f"otherwise the group may change to another one without those that stop (--assignor {assignor})"
    )


def other_lists(assignor: str, earlier: tuple[str, ...]) -> str:
    """Why that cannot be taken for granted. earlier: `GroupSnapshot.earlier_assignors`."""
    return (
        f"with some of its members the group has used {' and '.join(earlier)} before (by its log): they list several "
        "assignors, not all of them the same in the same order, or did (partition.assignment.strategy). It may change "
        f"to another one, and what moves is not known (--assignor {assignor} if all list the same in the same order)"
    )
