"""The `kgm` console script. Completing a word must be quick, so it does not import what only commands need."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The `kgm` console script. Modules take most of the time to start, so Ctrl-C can come while they are imported."""
    try:
        _run()
    except KeyboardInterrupt:  # while a command runs, kgm.cli.main handles it
        sys.exit(130)


def _run() -> NoReturn:
    if len(sys.argv) > 1 and sys.argv[1] == "__complete":
        from kgm.cli.completion.candidates import complete

        sys.exit(complete(sys.argv[2:]))
    from kgm.model.gc_threshold import collect_rarely

    collect_rarely()
    from kgm.cli.main import main as run

    run()
