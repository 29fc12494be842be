"""The pictures of docs/images show kgm as it is."""

from __future__ import annotations

import html
import re

import pytest
from PIL import Image

from tests import ROOT
from tests.needs import needs
from tools.screenshots.pictures import page_png
from tools.screenshots.take import IMAGES, PAGES, TERMINALS, take


def text_of(picture):
    """What is written on an SVG, without the form that rich gives it."""
    drawn = re.sub(r"<style>.*?</style>", "", picture, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "\n", drawn)).split()


@pytest.mark.long
@pytest.mark.slow
def test_terminals_show_what_kgm_prints_now(tmp_path):
    """python -m tools.screenshots.take makes them again."""
    take(tmp_path, pages=False)
    assert {path.name for path in tmp_path.iterdir()} == set(TERMINALS)
    for name in TERMINALS:
        assert text_of((IMAGES / name).read_text()) == text_of((tmp_path / name).read_text()), name


def test_every_picture_is_on_a_page_with_a_description():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = [
        found for page in pages for found in re.findall(r"!\[([^\]]*)\]\(\S*?images/([\w.-]+)\)", page.read_text())
    ]
    assert {name for _, name in shown} == {path.name for path in IMAGES.iterdir()} == {*TERMINALS, *PAGES}
    assert all(len(description) > 20 for description, _ in shown)


def test_pictures_are_small_and_load_nothing():
    for path in IMAGES.iterdir():
        assert path.stat().st_size < 60_000, path.name
        if path.suffix == ".svg":
            picture = path.read_text()
            assert not re.search(r"@import|@font-face|<script|url\((?!#)|href", picture)
        else:
            with Image.open(path) as opened:
                assert opened.size == PAGES[path.name]


@pytest.mark.slow
def test_a_page_is_taken_at_the_width_of_a_phone(tmp_path):
    needs("chromium")
    page = tmp_path / "page"
    page.write_text("<!doctype html><style>body { margin: 0; background: #eee } div { width: 50vw; height: 90px; "
                    "background: #123456 }</style><div></div>")  # fmt: skip
    page_png(page, tmp_path / "picture.png", width=390, height=600)
    with Image.open(tmp_path / "picture.png") as opened:
        picture = opened.convert("RGB")
        assert picture.size == (390, 600)
        assert [picture.getpixel((x, 50)) for x in (194, 196)] == [(0x12, 0x34, 0x56), (0xEE, 0xEE, 0xEE)]
