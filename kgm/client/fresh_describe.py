"""Groups as their coordinator knows them, where it describes them as they were.

A coordinator describes a group as of the last record that it knows to be committed. One that has just taken over has
loaded every record and decides by them, but learns how far they are committed from the next fetches of its followers:
until then, for up to a second or so, it describes groups as they were some records ago, as empty as before their first
rebalance. Nobody may conclude from that that a member is gone. Where the move was seen, `AdminClient.describe_groups`
looks again; it may have been before, so an id that a description lacks is asked for: see `AdminClient.holders`."""

from collections.abc import Callable, Iterable

from kgm.client.admin_client import AdminClient
from kgm.client.transport.brokers import TAKEOVER_S, backoff
from kgm.model.errors import AuthorizationError, NotFoundError, UnreachableError, UnsupportedError
from kgm.model.snapshot import GroupSnapshot


def described(
    cluster: AdminClient, group_id: str, ids: Iterable[str], *, shown_too: bool = False,
    describe: Callable[[str], GroupSnapshot] | None = None,
) -> GroupSnapshot:  # fmt: skip
    """The group; no member has an instance id among these ids that it does not show. shown_too: and, of a classic
    group, a member has each of them that it does show. describe: how to describe it (`AdminClient.describe_group`).

    Raises NotFoundError for no such group, UnreachableError if the coordinator's description stays behind what it
    knows, and what `describe` does."""
    asked = {*ids}
    attempt = 0
    while True:
        try:
            group = _agreed(cluster, group_id, asked, shown_too=shown_too, describe=describe or cluster.describe_group)
        except UnreachableError as error:
            if not attempt:
                raise
            raise _behind(group_id) from error
        if group is not None:
            return group
        if cluster.deadline.expired:
            raise _behind(group_id)
        cluster.deadline.sleep(backoff(attempt))
        attempt += 1


def seen_twice(cluster: AdminClient, group_id: str) -> GroupSnapshot:
    """The group; one without members is looked at twice: nobody knows an instance id to ask for.

    Raises what `AdminClient.describe_group` does."""
    try:
        group = cluster.describe_group(group_id)
        if group.members:
            return group
    except NotFoundError:
        pass
    cluster.deadline.sleep(TAKEOVER_S)
    return cluster.describe_group(group_id)


def _agreed(
    cluster: AdminClient, group_id: str, asked: set[str], *, shown_too: bool, describe: Callable[[str], GroupSnapshot]
) -> GroupSnapshot | None:
    """The group as it is described; None if its coordinator knows better."""
    group, missing = None, None
    try:
        group = describe(group_id)
    except NotFoundError as error:
        missing = error
    members = () if group is None else group.members
    holding = {one.group_instance_id for one in members}
    doubtful = asked - {one.member_id for one in members}
    if not shown_too or (group is not None and group.type == "consumer"):
        doubtful -= holding  # coordinators of before 4.0 know nobody in a consumer group by a Heartbeat
    if doubtful and _holders(cluster, group_id, doubtful) not in (None, doubtful & holding):
        return None
    if missing is not None:
        raise missing
    return group


def _holders(cluster: AdminClient, group_id: str, instance_ids: set[str]) -> set[str] | None:
    """None if the coordinator does not say."""
    try:
        return cluster.holders(group_id, instance_ids)
    except (AuthorizationError, UnsupportedError):
        return None


def _behind(group_id: str) -> UnreachableError:
    return UnreachableError(
        f"the coordinator of group {group_id!r} does not describe it as it knows it",
        facts=("it has taken over from another broker, and lags behind its own log",), group_id=group_id,
        hint="try again in a few seconds",
    )  # fmt: skip
