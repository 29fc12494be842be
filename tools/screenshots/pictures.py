"""SVG of what a terminal received, and PNG of pages."""

from __future__ import annotations

import io
import pathlib
import re
import shutil
import subprocess
import tempfile

from PIL import Image
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

PHONE_WIDTH = 390
_COLOURS = 96
#: rich's own form loads a font from elsewhere.
_FORM = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace"
)
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
#: A browser's window is not as narrow as a phone, but a frame is.
_FRAME = """<!doctype html><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
<iframe width="{width}" height="{height}" src="{page}"></iframe>"""


def terminal_svg(text: str, *, title: str, columns: int) -> str:
    """A terminal that shows a text with colours."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(text.strip("\n")), soft_wrap=True)
    picture = console.export_svg(title=title, code_format=_FORM, unique_id="k")
    return "\n".join(line.rstrip() for line in picture.splitlines() if line.strip()) + "\n"


def page_png(page: pathlib.Path, file: pathlib.Path, *, width: int, height: int) -> None:
    """The top of a page as a light screen of this size shows it, in few colours."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("there is no chromium to show a page with")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(page, folder / "page.html")
        (folder / "frame.html").write_text(_FRAME.format(width=width, height=height, page="page.html"))
        options = [f"--user-data-dir={folder / 'profile'}", f"--screenshot={folder / 'picture.png'}"]
        size = [f"--window-size={max(width, 600)},{height}", "--blink-settings=preferredColorScheme=1"]
        subprocess.run(
            [browser, *_QUIET, *options, *size, (folder / "frame.html").as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        with Image.open(folder / "picture.png") as picture:
            few = picture.convert("RGB").crop((0, 0, width, height)).quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
