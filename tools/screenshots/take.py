"""Take the pictures of docs/images: `python -m tools.screenshots.take [FOLDER] [--no-pages]`.

Those of a terminal are the same in every run; those of pages (--no-pages leaves them out) depend on the fonts and the
browser of the machine."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

from tests.cli.environment import bare
from tools.screenshots.pictures import PHONE_WIDTH, page_png, terminal_svg
from tools.screenshots.scene import GROUP, INSTANCE_IDS, Scene, at_terminal, disguised, disguised_ages, fleet, scene

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
COLUMNS, ROWS = 132, 30
BOUNCE = ("simulate-bounce", GROUP, "--all", "--rolling", "--restart-time")
EXPLAIN = ("history", "explain", "billing", "--generation", "4", "--source", "segments:tests/data/offsets-log/plain")
TERMINALS = ("describe.svg", "simulate-bounce.svg", "watch.svg", "top.svg")
#: Width and height of each picture of a page; the name of the page is its beginning.
PAGES = {"bounce-page.png": (1000, 900), "bounce-page-phone.png": (PHONE_WIDTH, 1130), "explain-page.png": (1000, 1340)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=IMAGES)
    parser.add_argument("--no-pages", action="store_true")
    arguments = parser.parse_args()
    take(arguments.folder, pages=not arguments.no_pages)
    for name in sorted(path.name for path in arguments.folder.iterdir()):
        print(f"{name}: {(arguments.folder / name).stat().st_size / 1e3:.0f} kB")


def take(folder: pathlib.Path, *, pages: bool) -> None:
    """Write them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        reports = pathlib.Path(name)
        with scene() as stage:
            _take_terminals(stage, folder)
            if pages:
                _kgm(*BOUNCE, "60s", "-b", stage.server.bootstrap, "--report", str(reports / "bounce-page"))
        with fleet() as server:
            words = ("top", "--timeout", "4s")
            text = disguised_ages(at_terminal(*words, "-b", server.bootstrap, columns=80, rows=24))
            picture = terminal_svg(disguised(text, server.port), title="kgm top", columns=80)
            (folder / "top.svg").write_text(picture)
        if pages:
            _kgm(*EXPLAIN, "--report", str(reports / "explain-page"))
        for report in reports.iterdir():
            report.write_text(report.read_text().replace(stage.server.bootstrap, "127.0.0.1:9092"))
            for picture, (width, height) in PAGES.items():
                if picture.startswith(report.name):
                    page_png(report, folder / picture, width=width, height=height)


def _take_terminals(stage: Scene, folder: pathlib.Path) -> None:
    def shown(name: str, *words: str, steps: Callable[[Callable[[str], None]], None] | None = None) -> None:
        text = at_terminal(*words, "-b", stage.server.bootstrap, columns=COLUMNS, rows=ROWS, steps=steps)
        picture = terminal_svg(disguised(text, stage.server.port), title=f"kgm {' '.join(words)}", columns=COLUMNS)
        (folder / name).write_text(picture)

    shown("describe.svg", "describe", GROUP)
    shown("simulate-bounce.svg", *BOUNCE, "20s", "--compare")
    watched = ("watch", GROUP, "--expect-no-moves", "--until", "bounced", "--settle", "1s", "--interval", "500ms")
    shown("watch.svg", *watched, steps=lambda wait_for: _bounce(stage, wait_for))


def _bounce(stage: Scene, wait_for: Callable[[str], None]) -> None:
    """Restart every member, each after the one before was seen."""
    wait_for(INSTANCE_IDS[-1])
    for number, name in enumerate(INSTANCE_IDS):
        stage.stop(number)
        wait_for(f"away\x1b[0m  {name}")
        stage.start_again(number)
        wait_for(f"replaced\x1b[0m  {name}")


def _kgm(*words: str) -> None:
    command = [sys.executable, "-m", "kgm", *words]
    subprocess.run(command, check=True, cwd=ROOT, env=bare(), stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
