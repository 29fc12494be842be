"""`kgm history`: what happened to groups, why, and what to change, from the records of `__consumer_offsets`.

Theory of operation. A question is put to tables (`kgm.history.store.store`), never to records. They were built on Spark
(`capture`, `build`), or are derived in this process from a source that is small; the answers are the same. `where` has
the options that say which tables, `rows` makes JSON and words of their rows, and each module beside them holds a
command or two, which imports what is heavy (numpy, pyarrow, Spark) when it runs."""

import typer

from kgm.cli.commands.history.capture_build import build, capture
from kgm.cli.commands.history.churn import churn
from kgm.cli.commands.history.decode import decode
from kgm.cli.commands.history.explain import explain
from kgm.cli.commands.history.rebalances import rebalances
from kgm.cli.commands.history.simulate_fleet import simulate_fleet
from kgm.cli.commands.history.timeline_movement import movement, timeline
from kgm.cli.commands.history.verify import verify
from kgm.cli.commands.history.zombies_timeouts import timeouts, zombies

app = typer.Typer(
    help="What happened to groups and why, from the records of __consumer_offsets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for _name, _command, _purpose in (
    ("capture", capture, "Take records of __consumer_offsets into a store."),
    ("build", build, "Make a store's tables from what was captured."),
    ("rebalances", rebalances, "List rebalances: when, why, who, what moved."),
    ("explain", explain, "Explain one rebalance of a group, and what to do."),
    ("timeline", timeline, "Show a group's seats over time."),
    ("movement", movement, "Show who owned each partition over time."),
    ("churn", churn, "Rank groups and members by rebalances."),
    ("zombies", zombies, "List what is wrong with seats."),
    ("timeouts", timeouts, "Advise session timeouts from restarts seen."),
    ("decode", decode, "Print records as NDJSON."),
    ("verify", verify, "Say what is missing or cannot be read."),
    ("simulate-fleet", simulate_fleet, "Play planned work on every group; rank the costs."),
):
    app.command(_name, short_help=_purpose)(_command)
