"""The command tree of typer."""

import importlib
from collections.abc import Sequence
from typing import Annotated

import click
import typer

from kgm.cli.output.streams import write_stderr, write_stdout
from kgm.cli.overview import COMMANDS, EPILOG, MOST_COLUMNS, OLD_NAMES, PURPOSE, SECTIONS, USAGE, VERSION_HELP
from kgm.model.errors import UsageError
from kgm.text.names import did_you_mean
from kgm.text.sanitize import clean_lines
from kgm.version import __version__


class _Overview(typer.core.TyperGroup):
    """The root command. Its help lists the commands in sections."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  (click calls it by name)
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            rows = [(name.ljust(width), self.commands[name].get_short_help_str(MOST_COLUMNS)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(
    name="kgm",
    cls=_Overview,
    help=PURPOSE,
    rich_markup_mode=None,  # rich's help costs more than the rest of start-up
    pretty_exceptions_enable=False,  # they would print local variables, including secrets
    no_args_is_help=True,
    add_completion=False,
    subcommand_metavar=USAGE,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MOST_COLUMNS},
)


def _version(value: bool) -> None:  # noqa: FBT001  (typer's callback)
    if value:
        write_stdout(f"kgm {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help=VERSION_HELP)] = False,
) -> None:
    pass


def register(name: str) -> None:
    """Add a command to the tree; imports its module."""
    module, function, _ = COMMANDS[name]
    bound = getattr(importlib.import_module(f"kgm.cli.commands.{module}"), function)
    if isinstance(bound, typer.Typer):
        app.add_typer(bound, name=name)
    else:
        app.command(name)(bound)


def _register(arguments: Sequence[str]) -> None:
    """Add the command that the arguments name; for the overview, add all commands, with only names and first lines."""
    app.registered_commands.clear()  # left by an earlier run in this process
    app.registered_groups.clear()
    if arguments and arguments[0] in COMMANDS:
        register(arguments[0])
        return
    for name, (_, _, purpose) in COMMANDS.items():
        app.command(name, help=purpose, short_help=purpose)(_overview_entry)


def _overview_entry() -> None:
    """Stands in for a command in the overview; never called, because a named command is added itself."""


def run_tree(arguments: Sequence[str]) -> int:
    """Parse and run a command line. Returns the exit code; raises KgmError."""
    _register(arguments)
    command = typer.main.get_command(app)
    if arguments[-1:] in (["-h"], ["--help"]):
        _complete_help(command, arguments)
    try:
        result = command.main(list(arguments), prog_name="kgm", standalone_mode=False)
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # from click 8.2 on
            write_stderr(clean_lines(error.format_message() + "\n"))
            return error.exit_code
        raise _as_usage_error(error, arguments) from error
    except click.Abort:
        write_stderr("interrupted\n")
        return 130
    return result if isinstance(result, int) else 0


def shown_names(option: "click.Parameter") -> list[str]:
    """The names of an option, without its former name."""
    old = {OLD_NAMES.get(name) for name in option.opts}
    return [name for name in option.opts if name not in old]


def _complete_help(command: "click.Command", arguments: Sequence[str]) -> None:
    """For the command that the arguments name: add examples to the end of its help, and hide former option names."""
    from kgm.cli.commands.about.examples import EXAMPLES

    names: list[str] = []
    for word in arguments:
        below = getattr(command, "commands", {}).get(word)
        if below is None:
            break
        command = below
        names.append(word)
    for option in command.params:
        option.opts = shown_names(option)
    lines = [f"  {line}\n      {meaning}" for line, meaning in EXAMPLES.get(" ".join(names), ())]
    if lines:
        command.epilog = "\b\n" + "\n".join(["Examples:", *lines])


def _as_usage_error(error: "click.ClickException", arguments: Sequence[str]) -> UsageError:
    """The error for a command line that click rejects, in the form of all other errors."""
    message, _, _ = error.format_message().partition(" Did you mean")  # click may say this twice
    context: click.Context | None = getattr(error, "ctx", None)
    words = (
        [word for word in arguments[:1] if word in COMMANDS] if context is None else context.command_path.split()[1:]
    )
    hint = " ".join(["kgm help", *words])
    if context is not None and isinstance(error, click.NoSuchOption):
        known = [name for one in context.command.params for name in one.opts]
        begun = [name for name in known if name.startswith(error.option_name)]
        hint = f"did you mean {begun[0]}?" if begun else did_you_mean(error.option_name, known) or hint
    elif context is not None and isinstance(context.command, click.Group):
        hint = did_you_mean(_quoted(message), context.command.commands) or hint
    elif words == ["remove-members"] and "extra argument" in message:
        hint = "name members by an option: kgm remove-members GROUP --instance-ids ID"
    return UsageError(message.rstrip("."), hint=hint)


def _quoted(message: str) -> str:
    """The word between quotation marks in a message."""
    return message.split("'")[1] if message.count("'") > 1 else ""
