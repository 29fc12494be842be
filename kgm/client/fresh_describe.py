"""Up-to-date descriptions of groups, from coordinators whose descriptions may be outdated.

A coordinator describes a group as of the last record that it knows to be committed. A coordinator that has just taken
over has loaded every record and acts on all of them, but it learns from the next fetches of its followers how far they
are committed. Until then, for up to a second or so, it describes groups as they were some records ago, possibly as
empty as before their first rebalance. So a member missing from a description may still be there. If kgm noticed the
move, `AdminClient.describe_groups` describes the group again. But the move may have been earlier, so the coordinator is
also asked about instance ids that a description lacks: see `AdminClient.instance_ids_in_use`."""

from collections.abc import Callable, Iterable

from kgm.client.admin_client import AdminClient
from kgm.client.transport.brokers import TAKEOVER_S, backoff
from kgm.model.errors import AuthorizationError, NotFoundError, UnreachableError, UnsupportedError
from kgm.model.snapshot import GroupSnapshot


def describe_fresh(
    cluster: AdminClient, group_id: str, ids: Iterable[str], *, shown_too: bool = False,
    describe: Callable[[str], GroupSnapshot] | None = None,
) -> GroupSnapshot:  # fmt: skip
    """The group, from a coordinator whose state agrees with its description: no instance id in `ids` that the
    description lacks is in use. shown_too: also, in a classic group, that those it shows are in use. describe: how to
    describe the group (by default `AdminClient.describe_group`).

    Raises NotFoundError if there is no such group, UnreachableError if the description stays outdated until the
    deadline, and what `describe` raises."""
    ids = {*ids}
    attempt = 0
    while True:
        try:
            group = _describe_if_fresh(
                cluster, group_id, ids, shown_too=shown_too, describe=describe or cluster.describe_group
            )
        except UnreachableError as error:
            if not attempt:
                raise
            raise _outdated_error(group_id) from error
        if group is not None:
            return group
        if cluster.deadline.expired:
            raise _outdated_error(group_id)
        cluster.deadline.sleep(backoff(attempt))
        attempt += 1


def describe_twice(cluster: AdminClient, group_id: str) -> GroupSnapshot:
    """The group; if it has no members, it is described twice, because there is no instance id to check.

    Raises what `AdminClient.describe_group` raises."""
    try:
        group = cluster.describe_group(group_id)
        if group.members:
            return group
    except NotFoundError:
        pass
    cluster.deadline.sleep(TAKEOVER_S)
    return cluster.describe_group(group_id)


def _describe_if_fresh(
    cluster: AdminClient, group_id: str, ids: set[str], *, shown_too: bool, describe: Callable[[str], GroupSnapshot]
) -> GroupSnapshot | None:
    """The group as described; None if its coordinator's state has other instance ids."""
    group, missing = None, None
    try:
        group = describe(group_id)
    except NotFoundError as error:
        missing = error
    members = () if group is None else group.members
    shown = {one.group_instance_id for one in members}
    doubtful = ids - {one.member_id for one in members}
    if not shown_too or (group is not None and group.type == "consumer"):
        doubtful -= shown  # before Kafka 4.0, Heartbeat does not know the members of a consumer group
    if doubtful and _in_use(cluster, group_id, doubtful) not in (None, doubtful & shown):
        return None
    if missing is not None:
        raise missing
    return group


def _in_use(cluster: AdminClient, group_id: str, instance_ids: set[str]) -> set[str] | None:
    """The instance ids in use; None if the coordinator does not report them."""
    try:
        return cluster.instance_ids_in_use(group_id, instance_ids)
    except (AuthorizationError, UnsupportedError):
        return None


def _outdated_error(group_id: str) -> UnreachableError:
    return UnreachableError(
        f"the coordinator of group {group_id!r} describes an outdated state of it",
        facts=("it took over from another broker and has not caught up with its log",), group_id=group_id,
        hint="try again in a few seconds",
    )  # fmt: skip
