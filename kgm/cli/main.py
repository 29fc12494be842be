"""The entry point: the command tree, and the one place where errors become exit codes."""

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from kgm import __version__
from kgm.cli.sanitize import clean
from kgm.model.errors import KgmError

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
    "list": ("groups", "list_groups", "List the groups that are visible to us: id, type, state, members."),
    "describe": ("describe", "describe", "Describe groups: members with instance ids, assignments, lag."),
    "remove-members": ("remove_members", "remove_members", "Remove members from a group in one LeaveGroup request."),
    "simulate-bounce": ("simulate_bounce", "simulate_bounce", "Say what a planned bounce would move."),
    "assign": ("assign", "assign_command", "Run one of Kafka's assignors on written-down groups."),
    "serve": ("serve", "serve", "Run the embedded coordinator: real Kafka clients can join it."),
    "config": ("config", "app", "Show where settings come from; try to connect and log in."),
    "demo": ("demo", "demo", "Show the main job end to end, on the embedded coordinator."),
}


def register(name: str) -> None:
    """Bind a command: its module is imported now."""
    import importlib

    module, function, _ = COMMANDS[name]
    bound = getattr(importlib.import_module(f"kgm.cli.{module}"), function)
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
    try:
        _register(arguments)
        result = typer.main.get_command(app).main(arguments, prog_name="kgm", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except KgmError as error:
        _tell(error, arguments)
        if debug:
            raise
        return error.exit_code
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:
        if debug:
            raise
        sys.stderr.write(
            f"error: kgm failed inside: {clean(type(error).__name__)}: {clean(str(error))}\n"
            "hint: run it again with --debug and report what it prints\n"
        )
        return 1


def _tell(error: KgmError, arguments: Sequence[str]) -> None:
    """The error for people on stderr; in JSON as an object on stdout too, so that a script can read it."""
    from kgm.cli.failures import tell

    tell(error)
    if _asked_for_json(arguments):
        from kgm.cli.options import Common
        from kgm.cli.output import Report, emit

        command = next((word for word in arguments if not word.startswith("-")), "kgm")
        emit(Report(schema=f"kgm.{command}/v1", data={}, errors=(error,)), Common(output="json"))


def _asked_for_json(arguments: Sequence[str]) -> bool:
    joined = " ".join(arguments)
    return any(form in joined for form in ("-o json", "-ojson", "--output json", "--output=json"))


def main() -> NoReturn:
    """The `kgm` console script."""
    sys.exit(run())


if __name__ == "__main__":
    main()
