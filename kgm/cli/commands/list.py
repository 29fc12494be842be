"""`kgm list`: list the groups of a cluster."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.options.words import known_word, split_words, topic_names
from kgm.cli.output.report import Column, Columns, Report, cluster_json, emit, object_table

SCHEMA = "kgm.list/v1"


@cluster_options
def list_groups(
    *,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state, ignoring case; repeatable or a,b.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="classic, consumer, share or streams; repeatable or a,b."),
    ] = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Only groups whose id matches.")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only groups with members or offsets on it; repeatable or a,b."),
    ] = None,
    lag: Annotated[bool, typer.Option("--lag", help="Show the lag; reads the offsets of every group.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", metavar="COLUMN", help="group | type | state | members | lag")
    ] = "group",
    options: RunOptions,
) -> None:
    """List the visible groups: id, type, state, members.

    --lag adds the records between the committed offsets and the ends of the partitions. --sort members and --sort lag
    put the highest first; --sort lag implies --lag. Groups that cannot be described have unknown members and lag, and
    are not listed with --topic; a warning names them."""
    from kgm.cli.completion.cache import SeenNames, store_names
    from kgm.cli.output.contracts.groups import unread_json
    from kgm.cli.output.contracts.list import group_json
    from kgm.cli.output.failures import exit_with, warn_of_unread, warn_of_unseen_groups
    from kgm.cli.output.progress import progress
    from kgm.model.snapshot import GROUP_TYPES
    from kgm.operations.groups import listing
    from kgm.operations.groups.unread import undescribed, unread

    states = [known_word(word, "--state", listing.LISTED_STATES) for word in split_words(state)]
    types = [known_word(word, "--type", GROUP_TYPES) for word in split_words(kind)]
    topics = topic_names(topic)
    order = listing.GroupOrder(known_word(sort, "--sort", list(listing.GroupOrder)))
    lag = lag or order is listing.GroupOrder.LAG
    seen = SeenNames()
    with options.cluster(reads_only=True) as connected, progress(options, "listing groups"):
        table = listing.list_groups(
            connected, states=states, types=types, pattern=match, topics=topics, lag=lag, order=order, see=seen.noted
        )
        warn_of_unseen_groups(table.unseen)
        consequence = "not listed" if topics else "members and lag are unknown"
        missing = [*unread(connected), *undescribed(table.undescribed, consequence)]
        warn_of_unread(missing)
        where = cluster_json(connected)
    names = [row.group_id for row in table.rows]
    errors = table.errors
    is_all = match is None and not state and not kind and not topics and not errors
    store_names(options, seen, listed=names, is_all=is_all)
    columns: Columns = {
        "group_id": "GROUP", "type": "TYPE", "state": "STATE", "members": Column(title="MEMBERS", right=True),
        **({"lag": Column(title="LAG", right=True)} if lag else {}),
        "protocol_type": Column(title="PROTOCOL-TYPE", wide=True),
        "coordinator=coordinator.id": Column(title="COORDINATOR", wide=True, right=True),
    }  # fmt: skip
    emit(
        Report(
            schema=SCHEMA,
            data={"groups": map(group_json, table.rows), "unread": unread_json(missing)},
            tables=map(partial(object_table, columns), [map(group_json, table.rows)]),
            keys=[*columns],
            names=names,
            items=map(group_json, table.rows),
            cluster=where,
            errors=errors,
        ),
        options,
    )
    exit_with(errors, done=len(table.rows))
