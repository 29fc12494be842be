"""The documentation site: it builds, every link leads somewhere, it loads nothing, and a phone shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests import ROOT
from tests.cli.output.pages.reading import dom
from tests.needs import needs_package
from tools.manual.tree import leaves

PHONE_WIDTH = 390


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    needs_package("mkdocs")
    needs_package("material")
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        "tools/site/mkdocs.yml",
        "--site-dir",
        folder,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """links: what a reader can follow; loaded: what a browser fetches; anchors: where links of other pages lead."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if "id" in named:
            self.anchors.add(named["id"])
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        if tag == "link" and named.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(named["href"])
        if tag in ("script", "img", "iframe") and named.get("src"):
            self.loaded.append(named["src"])


def test_every_link_leads_somewhere(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            assert target.exists(), (path.name, link)
            if target in pages:
                assert unquote(where.fragment) in pages[target].anchors, (path.name, link)


def test_every_command_has_a_page_with_its_options(site):
    for words, leaf in leaves().items():
        text = (site / "commands" / f"{'-'.join(words)}.html").read_text()
        for option in (name for param in leaf.params if not getattr(param, "hidden", False) for name in param.opts):
            if option.startswith("--"):
                assert option in text, (words, option)


def test_nothing_is_loaded_from_elsewhere(site):
    for path in site.rglob("*.html"):
        for loaded in Page(path.read_text()).loaded:
            assert not urlsplit(loaded).netloc, (path.name, loaded)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", sheet.read_text()), sheet.name


#: A browser's window is not as narrow as a phone, but a frame is. A page of a file tells nothing to another but what it says.
FRAME = """<title>no answer</title><script>onmessage = event => document.title = event.data</script>
<iframe width="{width}" height="800" src="measured.html"></iframe>"""
MEASURE = "<script>onload = () => parent.postMessage(document.documentElement.scrollWidth, '*')</script></body>"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index.html", "rollout.html", "compatibility.html", "commands/simulate-bounce.html"])
def test_a_phone_shows_it_without_scrolling_sideways(site, tmp_path, name):
    """Tables and code scroll by themselves."""
    page = site / name
    frame, measured = page.with_name("frame.html"), page.with_name("measured.html")
    frame.write_text(FRAME.format(width=PHONE_WIDTH))
    measured.write_text(page.read_text().replace("</body>", MEASURE))
    title = dom(frame, tmp_path).all("title")[0].text
    frame.unlink()
    measured.unlink()
    assert int(title) <= PHONE_WIDTH
