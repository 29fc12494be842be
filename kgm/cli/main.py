"""The one place where errors become exit codes."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

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
from kgm.cli.overview import COMMANDS, GROUPS
from kgm.cli.tree import run_tree
from kgm.model.errors import KgmError, OutputError, PartialError
from kgm.text.sanitize import clean, clean_lines


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code (docs/exit-codes.md has all)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    invocation.remember(arguments)
    try:
        arguments = in_order(arguments, GROUPS)
        return run_tree(arguments)
    except KgmError as error:
        if debug:
            _print_traceback()
        _report_failure(error, arguments)
        return _exit_code(error)
    except invocation.Ended as end:
        return end.code
    except KeyboardInterrupt:
        write_stderr("interrupted\n")
        return 130
    except SystemExit:
        # This is how click ends a command when stdout has been closed.
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
    """Whether click or rich failed to write: their output does not pass through kgm.cli.output.streams."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    module = "" if at is None else at.tb_frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in ("click", "rich", "typer")


def _exit_code(error: KgmError) -> int:
    """The exit code for an error. After a change, output that cannot be written counts as a partial result."""
    return PartialError.exit_code if isinstance(error, OutputError) and invocation.has_changed() else error.exit_code


def _print_traceback() -> None:
    """Print the traceback of the current error. It shows no values except those in messages."""
    write_stderr(clean_lines(traceback.format_exc()))


def _report_failure(error: KgmError, arguments: Sequence[str]) -> None:
    """Print the error on stderr; with -o json or yaml also as an object on stdout, so that a script can read it.

    If stderr cannot be written, the error goes to stdout, unless stdout has data for a program. An error that ends the
    run keeps its exit code even if stdout cannot be written either."""
    from kgm.cli.output.failures import error_text

    output = _output_format(arguments)
    text = error_text(error)
    try:
        if not write_stderr(text) and output in (None, "table", "wide"):
            write_stdout(text)
        if output in ("json", "yaml") and not isinstance(error, OutputError):
            from kgm.cli.output.output_options import OutputOptions
            from kgm.cli.output.report import Report, emit

            report = Report(schema=_schema_of(arguments), data={}, cluster=invocation.cluster(), errors=(error,))
            emit(report, OutputOptions(output=output))
    except OutputError:
        return


def _output_format(arguments: Sequence[str]) -> str | None:
    """The last format on the command line; it may be invalid."""
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
    return f"kgm.{'-'.join(words[: 2 if words[0] in GROUPS else 1])}/v1"


def finish(code: int) -> int:
    """Flush and close stdout at the end of the process. Returns the exit code."""
    failure = close()
    if failure is None:
        return code
    write_stderr(f"error: {clean(failure.message)}\n")
    return code or _exit_code(failure)


def main() -> NoReturn:
    """Run the command line of this process, and end it."""
    prepare()
    code = finish(run())
    gc.freeze()  # at exit, Python scans every object for cycles, a fifth of the time of a short command
    sys.exit(code)
