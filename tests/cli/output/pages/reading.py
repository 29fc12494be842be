"""Reads pages back: as a tree of elements, and as a real browser shows them."""

import re
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np
from PIL import Image

from tests.needs import needs

_VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)

    def all(self, tag, class_=None):
        found = []
        for child in self.children:
            if isinstance(child, Node):
                if child.tag == tag and class_ in (None, child.attributes.get("class")):
                    found.append(child)
                found += child.all(tag, class_)
        return found

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Builder(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Node("")]

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def tree(page: str) -> Node:
    """The page as a tree of elements, which must nest."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert len(builder.open) == 1, f"left open: {[node.tag for node in builder.open[1:]]}"
    return builder.open[0]


def assert_stands_alone(page: str):
    """Nothing in the page loads, links, or runs."""
    found = tree(page)
    for tag in (
        "script",
        "iframe",
        "object",
        "embed",
        "link",
        "img",
        "form",
        "base",
        "a",
        "use",
        "image",
        "foreignobject",
    ):
        assert not found.all(tag), tag
    policy = [meta for meta in found.all("meta") if meta.attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0].attributes["content"].startswith("default-src 'none'")
    for node in walk(found):
        for name in node.attributes:
            assert name not in ("href", "src", "style", "srcset", "xlink:href"), name
            assert not name.startswith("on"), name
    for sheet in found.all("style"):
        assert not re.search(r"url\((?!#)", sheet.text)  # except within this page
        assert "@import" not in sheet.text
    assert len(found.all("style")) == 1


def walk(node):
    for child in node.children:
        if isinstance(child, Node):
            yield child
            yield from walk(child)


_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


def look(page, folder, *, width=1200, height=1600, dark=False):
    """A screenshot: an array of height x width x (red, green, blue)."""
    picture = folder / "picture.png"
    _run(
        folder, page, f"--window-size={width},{height}", f"--screenshot={picture}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
    )  # fmt: skip
    with Image.open(picture) as opened:
        return np.asarray(opened.convert("RGB"))


def print_out(page, folder) -> bytes:
    """The page as PDF."""
    paper = folder / "paper.pdf"
    _run(folder, page, f"--print-to-pdf={paper}")
    return paper.read_bytes()


def dom(page, folder) -> Node:
    """The DOM that the browser builds from the page, after its scripts have run."""
    return tree(_run(folder, page, "--virtual-time-budget=5000", "--dump-dom").decode())


def _run(folder, page, *options) -> bytes:
    command = [needs("chromium"), *_QUIET, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
