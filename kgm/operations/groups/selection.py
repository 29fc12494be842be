"""Which groups are selected: by name, by pattern, or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from kgm.client import AdminClient
from kgm.client.failures import grant_hint
from kgm.client.group_listing import Listing
from kgm.model.errors import AuthorizationError, KgmError, NotFoundError
from kgm.text.names import in_order
from kgm.text.wording import many

#: How the warning begins that a listing may lack groups: if the principal sees any, and if it sees none.
_SOME_UNSEEN: Final = "groups may be invisible"
_NONE_SEEN: Final = "no group is visible"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelection:
    """The selected groups. group_ids: without duplicates, named groups first. listing: None if it was not needed.
    unseen: why there may be other groups that should be selected; see `unseen_groups`."""

    group_ids: tuple[str, ...]
    errors: tuple[KgmError, ...] = ()
    listing: Listing | None = None
    unseen: AuthorizationError | None = None


def unmatched(pattern: str | None, matching: Sequence[object], listing: Listing) -> Iterator[NotFoundError]:
    """An error if no group matches the pattern, unless the listing is incomplete."""
    if pattern is not None and not matching and not listing.errors:
        number = many(len(listing.groups), "visible group")
        yield NotFoundError(f"no group matches {pattern}", facts=[number], hint="kgm list")


def unseen_groups(cluster: AdminClient, *, sees_some: bool) -> AuthorizationError | None:
    """Why a listing may lack groups: brokers silently leave out those that the principal may not see. None if the
    principal may list all groups, or if the brokers do not report its rights. sees_some: whether it sees any group."""
    if cluster.can_list_all(sees_some=sees_some):
        return None
    return AuthorizationError(
        f"{_SOME_UNSEEN if sees_some else _NONE_SEEN}: without DESCRIBE on Cluster "
        "'kafka-cluster' a listing omits every group on which the principal has no DESCRIBE",
        hint=grant_hint("--operation Describe --cluster (or --group GROUP)"),
    )


def recorded_unseen(warnings: Iterable[str]) -> str | None:
    """The one of these warnings of an earlier run which says that its listing may lack groups; None if none does."""
    return next((text for text in warnings if text.startswith((_SOME_UNSEEN, _NONE_SEEN))), None)


def select_groups(
    cluster: AdminClient, names: Sequence[str], pattern: str | None = None, *, all_groups: bool = False
) -> GroupSelection:
    """The named groups, those whose id matches the pattern, or all that are visible.

    A pattern that matches nothing is an error of the selection. Raises KgmError when no broker answers."""
    if pattern is None and not all_groups:
        return GroupSelection(group_ids=tuple(dict.fromkeys(names)))
    listing = cluster.list_groups()
    errors = list(listing.errors)
    ids = in_order(row.group_id for row in listing.groups)
    matching = ids
    if pattern is not None:
        matching = [group_id for group_id in ids if fnmatchcase(group_id, pattern)]
    errors += unmatched(pattern, matching, listing)
    return GroupSelection(
        group_ids=tuple(dict.fromkeys([*names, *matching])), errors=tuple(errors), listing=listing,
        unseen=unseen_groups(cluster, sees_some=bool(ids)),
    )  # fmt: skip
