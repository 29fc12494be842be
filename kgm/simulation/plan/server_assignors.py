"""The broker's assignors of consumer groups (KIP-848), and whether it is known which of them members ask for."""

from typing import Final

from kgm.coordinator.contract.settings import CONSUMER_ASSIGNORS
from kgm.model.snapshot import GroupSnapshot

#: What brokers offer to consumer groups; the first is the default.
SERVER_ASSIGNORS: Final = CONSUMER_ASSIGNORS
#: Precedes their names in `kgm.assignors`.
SERVER_PREFIX: Final = "consumer-"
#: The broker's setting with the names of what it offers.
OFFERED: Final = "group.consumer.assignors"


def has_known_votes(snapshot: GroupSnapshot, stated: str | None) -> bool:
    """Whether all members are known to ask for the group's assignor. stated: the one that an operator names."""
    # No API returns what a member asks for. A group without a coordinator is made up, and so are its members.
    return stated is not None or snapshot.coordinator is None


def may_lose_votes(assignor: str, default: str, *, has_known_votes: bool) -> bool:
    """Whether a consumer group may change to the broker's default assignor when members leave: some have asked for the
    present one, but not necessarily those that stay. With the default most members are taken not to ask for any."""
    return not has_known_votes and assignor != default
