"""`kgm history`: what happened to groups, why, and what to change, from the records of `__consumer_offsets`.

One module per command, named after it. The tables of a history are built on Spark (`capture`, `build`), or derived in
this process from a small source; either way the commands ask `kgm.operations.history`, and the answers are the same.
`kgm.cli.options.history` has the options that select a history; `kgm.cli.output.history.rows_json` and `words` turn its
rows into JSON and text. Commands import heavy modules (numpy, pyarrow, Spark) only when they run."""

import typer

from kgm.cli.commands.history.build import build
from kgm.cli.commands.history.capture import capture
from kgm.cli.commands.history.churn import churn
from kgm.cli.commands.history.decode import decode
from kgm.cli.commands.history.explain import explain
from kgm.cli.commands.history.movement import movement
from kgm.cli.commands.history.offsets import offsets
from kgm.cli.commands.history.rebalances import rebalances
from kgm.cli.commands.history.simulate_fleet import simulate_fleet
from kgm.cli.commands.history.timeline import timeline
from kgm.cli.commands.history.timeouts import timeouts
from kgm.cli.commands.history.verify import verify
from kgm.cli.commands.history.zombies import zombies

app = typer.Typer(
    help="What happened to groups and why, from the records of __consumer_offsets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for _name, _command, _purpose in (
    ("capture", capture, "Capture records of __consumer_offsets in a store."),
    ("build", build, "Build the tables of a store from its captured records."),
    ("rebalances", rebalances, "List rebalances: when, why, who, what moved."),
    ("explain", explain, "Explain one rebalance of a group, and what to do."),
    ("timeline", timeline, "Show a group's members over time."),
    ("movement", movement, "Show who owned each partition over time."),
    ("offsets", offsets, "Show what happened to a group's committed offsets."),
    ("churn", churn, "Rank groups and members by rebalances."),
    ("zombies", zombies, "List alarms about static members."),
    ("timeouts", timeouts, "Recommend session timeouts based on restarts."),
    ("decode", decode, "Print records as NDJSON."),
    ("verify", verify, "Report what is missing or cannot be read."),
    ("simulate-fleet", simulate_fleet, "Simulate planned work on every group; rank the costs."),
):
    app.command(_name, short_help=_purpose)(_command)
