"""The entry point: the command tree, and the one place where errors become exit codes."""

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kgm.cli import invocation
from kgm.cli.options.word_order import in_order
from kgm.cli.output.streams import (
    close,
    output_error,
    prepare,
    reader_has_gone,
    silence,
    write_stderr,
    write_stdout,
)
from kgm.model.errors import KgmError, OutputError, PartialError
from kgm.text.sanitize import clean, clean_lines
from kgm.version import __version__

if TYPE_CHECKING:
    import click

app = typer.Typer(
    name="kgm",
    help="Consumer-group membership of Apache Kafka: see it, simulate changes, and change it safely.",
    rich_markup_mode=None,  # rich's help costs more than the rest of start-up
    pretty_exceptions_enable=False,  # they would print local variables, secrets among them
    no_args_is_help=True,
    add_completion=False,
    subcommand_metavar="COMMAND [ARGS]...",
    epilog="The options that every command takes, such as --profile and -o, can also stand before the command.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(value: bool) -> None:  # noqa: FBT001  (typer's callback)
    if value:
        write_stdout(f"kgm {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


#: name: (module, function, first line of its help), in the order of the help.
COMMANDS = {
    "list": ("list", "list_groups", "List the visible groups: id, type, state, members."),
    "describe": ("describe", "describe", "Describe groups: members with instance ids, assignments, lag."),
    "remove-members": ("remove_members", "remove_members", "Remove members from a group in one LeaveGroup request."),
    "simulate-bounce": ("simulate_bounce", "simulate_bounce", "Predict what a planned bounce would move."),
    "drain": ("planning.drain", "drain", "Forecast what draining hosts does to all groups."),
    "plan": ("planning.plan", "plan", "Search for the cheapest way to restart the members of a group."),
    "rollout": ("planning.rollout", "rollout", "Carry a planned bounce out, step by step, while the prediction holds."),
    "scale-in": ("planning.scale_in", "scale_in", "Show which members go when a StatefulSet is scaled in, and how."),
    "watch": ("watch", "watch", "Watch groups change; verify a rolling restart while it happens."),
    "wait": ("wait", "wait", "Wait until a group is stable, is empty, has N members, or has a lag of at most N."),
    "doctor": ("doctor", "doctor", "Diagnose groups: what is wrong, with evidence and the next command."),
    "diff": ("diff", "diff", "Show what changed in groups between two snapshots, files or live."),
    "export": ("export", "export", "Export lag, members, rebalances and findings as OpenMetrics."),
    "assign": ("assign", "assign_command", "Run one of Kafka's assignors on groups from a file."),
    "serve": ("serve", "serve", "Run the embedded coordinator, which real Kafka clients can join."),
    "audit": ("audit", "audit", "Show the removals that kgm made from this machine, and their results."),
    "history": ("history", "app", "Explain what happened to groups and why, from the records of __consumer_offsets."),
    "config": ("config", "app", "Show where settings come from; test the connection and the login."),
    "demo": ("demo", "demo", "Demonstrate kgm end to end on the embedded coordinator."),
    "completion": ("about.completion", "completion", "Print or install the completion script of a shell."),
    "version": ("about.version", "version", "Show the versions of kgm, Python, the extras and Kafka's APIs."),
    "help": ("about.help", "help_command", "Show the help of a command, or its manual page."),
}
_GROUPS = [name for name, (_, function, _) in COMMANDS.items() if function == "app"]


def register(name: str) -> None:
    """Add a command to the tree; imports its module."""
    import importlib

    module, function, _ = COMMANDS[name]
    bound = getattr(importlib.import_module(f"kgm.cli.commands.{module}"), function)
    if isinstance(bound, typer.Typer):
        app.add_typer(bound, name=name)
    else:
        app.command(name)(bound)


def _register(arguments: Sequence[str]) -> None:
    """Add the command that the arguments name; for the overview of all commands, only names and first lines."""
    app.registered_commands.clear()  # by an earlier run in this process
    app.registered_groups.clear()
    if arguments and arguments[0] in COMMANDS:
        register(arguments[0])
        return
    for name, (_, _, purpose) in COMMANDS.items():
        app.command(name, help=purpose, short_help=purpose)(_overview_entry)


def _overview_entry() -> None:
    """A command of the overview; never called, because a command that is named is added itself."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code (the contract is in the README)."""
    import click

    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    invocation.remember(arguments)
    try:
        arguments = in_order(arguments, _GROUPS)
        _register(arguments)
        command = typer.main.get_command(app)
        if arguments[-1:] in (["-h"], ["--help"]):
            _add_examples(command, arguments)
        result = command.main(arguments, prog_name="kgm", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except KgmError as error:
        if debug:
            _print_traceback()
        _report_failure(error, arguments)
        return _exit_code(error)
    except click.ClickException as error:
        _print_usage(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        write_stderr("interrupted\n")
        return 130
    except SystemExit:
        # This is how click ends a command whose stdout has been closed.
        if not (reader_has_gone(sys.stdout) or type(sys.stdout).__name__.endswith("PacifyFlushWrapper")):
            raise
        silence(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001  (the last resort)
        if isinstance(error, BrokenPipeError) and reader_has_gone(sys.stdout):
            silence(sys.stdout)
            return 0
        if debug:
            _print_traceback()
        if isinstance(error, OSError) and _is_of_a_printer(error):
            failure = output_error(error)
            silence(sys.stdout)
            _report_failure(failure, arguments)
            return _exit_code(failure)
        write_stderr(
            f"error: internal error: {clean(type(error).__name__)}: {clean(str(error))}\n"
            + ("" if debug else "hint: run it again with --debug and report the output as a bug\n")
        )
        return PartialError.exit_code if invocation.has_changed() else 1


def _is_of_a_printer(error: OSError) -> bool:
    """Whether click or rich could not write: what they print does not pass through kgm.cli.output.streams."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    module = "" if at is None else at.tb_frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in ("click", "rich", "typer")


def _exit_code(error: KgmError) -> int:
    """The code of an error. Once something was changed, an output that cannot be written is no mere failure."""
    return PartialError.exit_code if isinstance(error, OutputError) and invocation.has_changed() else error.exit_code


def _add_examples(command: "click.Command", arguments: Sequence[str]) -> None:
    """Examples at the end of the help of the command that the arguments name."""
    from kgm.cli.commands.about.examples import EXAMPLES

    names: list[str] = []
    for word in arguments:
        below = getattr(command, "commands", {}).get(word)
        if below is None:
            break
        command = below
        names.append(word)
    lines = [f"  {line}\n      {meaning}" for line, meaning in EXAMPLES.get(" ".join(names), ())]
    if lines:
        command.epilog = "\b\n" + "\n".join(["Examples:", *lines])


def _print_traceback() -> None:
    """The traceback of the current error. It shows no values but those in messages."""
    import traceback

    write_stderr(clean_lines(traceback.format_exc()))


def _print_usage(error: "click.ClickException") -> None:
    """As click shows it, with the words of the command line cleaned: they may come from a shell's completion."""
    import io

    text = io.StringIO()
    error.show(text)
    write_stderr(clean_lines(text.getvalue()))


def _report_failure(error: KgmError, arguments: Sequence[str]) -> None:
    """The error on stderr; with -o json or yaml also as an object on stdout, so that a script can read it.

    Where stderr cannot be written, people find it on stdout. An error that ends the run keeps its code when stdout
    cannot be written either."""
    from kgm.cli.output.failures import error_text

    output = _output_format(arguments)
    text = error_text(error)
    if not write_stderr(text) and output in (None, "table", "wide"):
        with contextlib.suppress(OutputError):
            write_stdout(text)
    if output in ("json", "yaml") and not isinstance(error, OutputError):
        from kgm.cli.output.output_options import OutputOptions
        from kgm.cli.output.report import Report, emit

        with contextlib.suppress(OutputError):
            emit(Report(schema=_schema_of(arguments), data={}, errors=(error,)), OutputOptions(output=output))


def _output_format(arguments: Sequence[str]) -> str | None:
    """The last format on the command line, which may be an invalid one."""
    import os

    output = os.environ.get("KGM_OUTPUT")
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in ("-o", "--output"):
            output = after
        elif word.startswith(("-o", "--output=")):
            output = word.removeprefix("--output=").removeprefix("-o").removeprefix("=")
    return output


def _schema_of(arguments: Sequence[str]) -> str:
    """`kgm.config-test/v1` for `config test`."""
    words = [word for word in arguments if not word.startswith("-")]
    if not words or words[0] not in COMMANDS:
        return "kgm.kgm/v1"
    return f"kgm.{'-'.join(words[: 2 if words[0] in _GROUPS else 1])}/v1"


def finish(code: int) -> int:
    """Write what is left to stdout and close it, at the end of the process. Returns the exit code."""
    failure = close()
    if failure is None:
        return code
    write_stderr(f"error: {clean(failure.message)}\n")
    return code or _exit_code(failure)


def main() -> NoReturn:
    """The `kgm` console script."""
    prepare()
    sys.exit(finish(run()))


if __name__ == "__main__":
    main()
