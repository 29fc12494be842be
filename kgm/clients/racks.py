"""Whether a group's assignment may depend on racks: those of partitions are in no description of a group."""

from __future__ import annotations

from collections.abc import Iterable

from kgm.model.client_library import JAVA, LIBRDKAFKA

#: Libraries whose assignors may match the racks of members and partitions (KIP-881), and an assignor that never does.
#: franz-go does so only with an option, and the brokers' assignors do not.
_BY_RACK = frozenset((JAVA, LIBRDKAFKA))
_WITHOUT_RACKS = "roundrobin"


def why_by_rack(assignor: str, racks: Iterable[str | None], leaders: Iterable[str]) -> str | None:
    """Why the racks of partitions may decide what a rebalance of a classic group moves; None if they do not matter.

    assignor: by the name that it has in Java. racks: those of the members. leaders: the libraries whose assignor may
    run."""
    if assignor == _WITHOUT_RACKS or not any(racks) or _BY_RACK.isdisjoint(leaders):
        return None
    return f"{assignor} may assign members partitions of their own racks"
