"""Which members are taken away, in any group."""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kgm.client.transport.brokers import BrokerNode
from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import MemberSnapshot
from kgm.operations.bounce.units import units_in, with_whole_units
from kgm.text.names import in_order

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainTarget:
    """Members selected by where they run or by name. A member is taken away if, for each kind that has values, it
    matches one of them: `hosts` and `racks` together mean the members on these hosts that are in these racks.

    hosts: addresses, networks (10.0.3.0/24) or globs on addresses; a broker knows no more about a host than its
    address. client_ids, identities: globs. An identity is a group instance id, or the member id of a dynamic member.
    Raises UsageError if there are no values."""

    hosts: tuple[str, ...] = ()
    client_ids: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.hosts or self.client_ids or self.racks or self.identities):
            raise UsageError(
                "no members selected",
                hint="name a host: --host 10.0.3.17; or give --client-id, --rack, or --match-members",
            )

    def takes(self, member: MemberSnapshot) -> bool:
        return (
            (not self.hosts or any(_is_on(member.client_host, host) for host in self.hosts))
            and (not self.client_ids or _matches_any(member.client_id, self.client_ids))
            and (not self.racks or member.rack in self.racks)
            and (not self.identities or _matches_any(member.identity, self.identities))
        )

    def takes_broker(self, broker: BrokerNode) -> bool:
        """Whether a broker is on one of the hosts, or in one of the racks: where both are given, in both."""
        return (
            bool(self.hosts or self.racks)
            and (not self.hosts or any(_is_on(broker.address.host, host) for host in self.hosts))
            and (not self.racks or broker.rack in self.racks)
        )

    def taken_from(self, members: Sequence[MemberSnapshot]) -> tuple[str, ...]:
        """The identities of the members that are taken away, sorted, with all threads of their processes."""
        taken = [member.identity for member in members if self.takes(member)]
        return tuple(in_order(with_whole_units(taken, units_in(members))))

    def unmatched(self, members: Sequence[MemberSnapshot]) -> tuple[str, ...]:
        """The values that no member matches, each as an option: `--host 10.0.3.17`."""
        alone = [
            (f"{option} {value}", replace(_ANY, **{kind: (value,)}))
            for option, kind, values in (
                ("--host", "hosts", self.hosts),
                ("--client-id", "client_ids", self.client_ids),
                ("--rack", "racks", self.racks),
                ("--match-members", "identities", self.identities),
            )
            for value in values
        ]
        return tuple(text for text, target in alone if not any(map(target.takes, members)))


_ANY = DrainTarget(hosts=("*",))


def _matches_any(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def _is_on(client_host: str, host: str) -> bool:
    """client_host: as brokers report it, `/10.0.3.17` or `name/10.0.3.17`."""
    name, _, address = client_host.rpartition("/")
    if host in (name, address) or fnmatch.fnmatchcase(address, host):
        return True
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(host, strict=False)
    except ValueError:
        return False


def with_addresses(hosts: Iterable[str]) -> tuple[str, ...]:
    """The hosts, with names resolved to their addresses. Raises NotFoundError for a name that has none, and UsageError
    for a network that is none."""
    return tuple(dict.fromkeys(address for host in hosts for address in _addresses(host)))


def _addresses(host: str) -> list[str]:
    try:
        ipaddress.ip_network(host, strict=False)
    except ValueError:
        pass
    else:
        return [host]
    if "/" in host:  # no name or address has one
        raise UsageError(f"--host: {host} is not a network", hint="--host 10.0.3.0/24")
    if _GLOB & set(host):
        return [host]
    try:
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotFoundError(
            f"host {host} has no address", facts=[str(error)], hint="brokers know addresses: --host 10.0.3.17"
        ) from error
    return [str(row[4][0]) for row in rows]
