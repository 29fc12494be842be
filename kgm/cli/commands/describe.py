"""`kgm describe`: members with instance ids, assignments, lag."""

from __future__ import annotations

from kgm.cli.options.declarations import Annotated, Argument, Option
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.group_tables import members_table, offsets_table, state_table
from kgm.cli.output.report import Report, Table, cluster_json, emit
from kgm.model.errors import KgmError, NotFoundError, UsageError
from kgm.text.names import in_order

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import Enum

    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.groups.unread import Unread
else:
    from kgm.model.enumeration import Enum

SCHEMA = "kgm.describe/v1"
#: Of more groups the coordinators' logs are not read, which takes time and bytes for each.
_MOST_COMPLETED = 10


class DescribeView(Enum):
    """What is shown of a group."""

    MEMBERS = "members"
    OFFSETS = "offsets"
    STATE = "state"


@cluster_options
def describe(
    groups: Annotated[list[str] | None, Argument(metavar="[GROUP]...", help="Groups to describe.")] = None,
    *,
    group: Annotated[list[str] | None, Option("-g", "--group", help="A group; repeatable.")] = None,
    match: Annotated[str | None, Option("--match", metavar="GLOB", help="Groups whose id matches.")] = None,
    all_groups: Annotated[bool, Option("--all-groups", help="All visible groups.")] = False,
    members: Annotated[bool, Option("--members", help="Show members and what they own (the default).")] = False,
    offsets: Annotated[bool, Option("--offsets", help="Show committed and end offsets, lag, owner.")] = False,
    state: Annotated[
        bool, Option("--state", help="Show one line for each group: state, assignor, coordinator.")
    ] = False,
    verbose: Annotated[bool, Option("--verbose", help="Show everything that is known of each member.")] = False,
    options: RunOptions,
) -> None:
    """Describe groups: members with instance ids, assignments, lag."""
    from kgm.cli.completion.cache import store_names
    from kgm.cli.output.failures import exit_with, warn_of_unread, warn_of_unseen_groups
    from kgm.cli.output.progress import progress
    from kgm.operations.groups.selection import select_groups
    from kgm.operations.groups.unread import unread

    if members + offsets + state > 1:
        raise UsageError("--members, --offsets and --state exclude each other")
    named = [*(groups or ()), *(group or ())]
    if not named and match is None and not all_groups:
        hint = "name one, or add --match GLOB or --all-groups; `kgm list` shows the groups"
        raise UsageError("no group is given", hint=hint)
    view = DescribeView.STATE if state else DescribeView.OFFSETS if offsets else DescribeView.MEMBERS
    with options.cluster(reads_only=True) as connected, progress(options, "describing groups"):
        selection = select_groups(connected, named, match, all_groups=all_groups)
        if selection.listing is not None:
            warn_of_unseen_groups(connected, selection.listing)
        answers = connected.describe_groups(selection.group_ids) if selection.group_ids else []
        errors = [*selection.errors, *(answer for answer in answers if isinstance(answer, KgmError))]
        connected.name_similar_groups(errors)
        missing = [*unread(connected)]
        warn_of_unread(missing)
        where = cluster_json(connected)
        snapshots = [answer for answer in answers if not isinstance(answer, KgmError)]
        if snapshots and options.is_data:  # a table does not show them
            snapshots = connected.with_kafka_versions(snapshots)
            if len(snapshots) <= _MOST_COMPLETED:
                from kgm.client.offsets_topic.last_rebalance import all_with_logged_timeouts

                snapshots = all_with_logged_timeouts(connected, snapshots)
    gone = [error.group_id for error in errors if isinstance(error, NotFoundError) and error.group_id is not None]
    store_names(options, snapshots, gone=gone)
    tables = _tables(snapshots, view, verbose=verbose) if options.has_tables else []
    emit(report(snapshots, missing, errors, tables, where, view=view, output=options.output), options)
    exit_with(errors, done=len(snapshots))


def _tables(snapshots: Sequence[GroupSnapshot], view: DescribeView, *, verbose: bool) -> list[Table]:
    match view:
        case DescribeView.STATE:
            return [state_table(snapshots)]
        case DescribeView.OFFSETS:
            return [offsets_table(snapshot) for snapshot in snapshots]
        case DescribeView.MEMBERS:
            return [members_table(snapshot, verbose=verbose) for snapshot in snapshots]


def report(
    snapshots: Sequence[GroupSnapshot],
    missing: Sequence[Unread],
    errors: Sequence[KgmError],
    tables: Sequence[Table],
    where: dict[str, str | None],
    *,
    view: DescribeView,
    output: str,
) -> Report:
    """The snapshots are the data; an item is a group, an offset or a member, as the view says. Only what `-o` prints is
    made: with thousands of members the rest takes time."""
    jsons, items, names, without = [], [], [], []
    if missing:
        from kgm.cli.output.contracts.groups import unread_json

        without = unread_json(missing)
    if output in ("json", "yaml", "ndjson"):
        jsons = [snapshot.to_json() for snapshot in snapshots]
    if output == "ndjson" and view is not DescribeView.STATE:
        items = [{"group_id": group["group_id"], **row} for group in jsons for row in group[view.value]]
    elif output == "ndjson":
        items = jsons
    if output == "name" and view is not DescribeView.STATE:
        names = [name for one in snapshots for name in in_order(member.identity for member in one.members)]
    elif output == "name":
        names = [snapshot.group_id for snapshot in snapshots]
    return Report(
        schema=SCHEMA,
        data={"groups": jsons, "unread": without},
        tables=tables,
        names=names,
        items=items,
        cluster=where,
        errors=errors,
    )
