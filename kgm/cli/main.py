"""The entry point: the command tree, and the one place where errors become exit codes."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kgm import __version__
from kgm.cli.options import invocation
from kgm.cli.output.streams import close, prepare, reader_has_gone, say, silence
from kgm.model.errors import KgmError
from kgm.text.sanitize import clean, clean_lines

if TYPE_CHECKING:
    import click

app = typer.Typer(
    name="kgm",
    help="Consumer-group membership of Apache Kafka: seen, simulated, and changed safely.",
    rich_markup_mode=None,  # rich's help costs more than the whole rest of start-up
    pretty_exceptions_enable=False,  # they would print local variables, secrets among them
    no_args_is_help=True,
    add_completion=False,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(value: bool) -> None:  # noqa: FBT001  (typer's callback)
    if value:
        sys.stdout.write(f"kgm {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


#: name: (module, function, first line of its help), in the order in which help lists them.
COMMANDS = {
    "list": ("list", "list_groups", "List the groups that are visible to us: id, type, state, members."),
    "describe": ("describe", "describe", "Describe groups: members with instance ids, assignments, lag."),
    "remove-members": ("remove_members", "remove_members", "Remove members from a group in one LeaveGroup request."),
    "simulate-bounce": ("simulate_bounce", "simulate_bounce", "Say what a planned bounce would move."),
    "watch": ("watch", "watch", "Watch groups change; verify a rolling restart while it happens."),
    "wait": ("wait", "wait", "Wait until a group is stable, empty, has N members, or lags by no more than N."),
    "doctor": ("doctor", "doctor", "Look for what is wrong with groups, with evidence and the next command."),
    "diff": ("diff", "diff", "Show what changed in groups between two snapshots, files or live."),
    "assign": ("assign", "assign_command", "Run one of Kafka's assignors on written-down groups."),
    "serve": ("serve", "serve", "Run the embedded coordinator: real Kafka clients can join it."),
    "audit": ("audit", "audit", "Show the removals that kgm made from this machine, and what came of each."),
    "history": ("history", "app", "What happened to groups and why, from the records of __consumer_offsets."),
    "config": ("config", "app", "Show where settings come from; try to connect and log in."),
    "demo": ("demo", "demo", "Show the main job end to end, on the embedded coordinator."),
}


def register(name: str) -> None:
    """Bind a command: its module is imported now."""
    import importlib

    module, function, _ = COMMANDS[name]
    bound = getattr(importlib.import_module(f"kgm.cli.commands.{module}"), function)
    if isinstance(bound, typer.Typer):
        app.add_typer(bound, name=name)
    else:
        app.command(name)(bound)


def _register(arguments: Sequence[str]) -> None:
    """Bind the command that is asked for; for help about all of them, only their names and what they are for."""
    app.registered_commands.clear()  # of an earlier run in this process
    app.registered_groups.clear()
    if arguments and arguments[0] in COMMANDS:
        register(arguments[0])
        return
    for name, (_, _, purpose) in COMMANDS.items():
        app.command(name, help=purpose, short_help=purpose)(_elsewhere)


def _elsewhere() -> None:
    """Stands for a command in the overview; never called, because a command that is named is bound itself."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code (the contract is in the README)."""
    import click

    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    invocation.remember(arguments)
    try:
        _register(arguments)
        result = typer.main.get_command(app).main(arguments, prog_name="kgm", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except KgmError as error:
        if debug:
            _trace()
        _tell(error, arguments)
        return error.exit_code
    except click.ClickException as error:
        _usage(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("interrupted\n")
        return 130
    except SystemExit:
        # So click ends a command whose stdout nobody reads any more.
        if not reader_has_gone(sys.stdout):
            raise
        silence(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001  (the last resort)
        if isinstance(error, BrokenPipeError) and reader_has_gone(sys.stdout):
            silence(sys.stdout)
            return 0
        if debug:
            _trace()
        say(
            f"error: kgm failed inside: {clean(type(error).__name__)}: {clean(str(error))}\n"
            + ("" if debug else "hint: run it again with --debug and report what it prints\n")
        )
        return 1


def _trace() -> None:
    """The traceback of the error that is being handled; it shows no values but those in messages."""
    import traceback

    say(clean_lines(traceback.format_exc()))


def _usage(error: "click.ClickException") -> None:
    """As click shows it, with the words of the command line cleaned: a shell's completion may have put them there."""
    import io

    text = io.StringIO()
    error.show(text)
    say(clean_lines(text.getvalue()))


def _tell(error: KgmError, arguments: Sequence[str]) -> None:
    """The error for people on stderr; in JSON or YAML as an object on stdout too, so that a script can read it."""
    from kgm.cli.output.failures import tell

    tell(error)
    output = _asked_for(arguments)
    if output in ("json", "yaml"):
        from kgm.cli.options.common import Common
        from kgm.cli.output.report import Report, emit

        emit(Report(schema=_schema_of(arguments), data={}, errors=(error,)), Common(output=output))


def _asked_for(arguments: Sequence[str]) -> str | None:
    """The last format that is asked for, as far as can be told of a command line that may be wrong."""
    import os

    found = os.environ.get("KGM_OUTPUT")
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in ("-o", "--output"):
            found = after
        elif word.startswith(("-o", "--output=")):
            found = word.removeprefix("--output=").removeprefix("-o")
    return found


def _schema_of(arguments: Sequence[str]) -> str:
    """`kgm.config-test/v1` of `config test`."""
    words = [word for word in arguments if not word.startswith("-")]
    depth = 2 if words and words[0] in COMMANDS and COMMANDS[words[0]][1] == "app" else 1
    return f"kgm.{'-'.join(words[:depth]) or 'kgm'}/v1"


def main() -> NoReturn:
    """The `kgm` console script."""
    prepare()
    code = run()
    close()
    sys.exit(code)


if __name__ == "__main__":
    main()
