"""docs/settings.md names exactly the settings that kgm reads, and those that it does not."""

from __future__ import annotations

import re

import pytest

from kgm.model.client_settings import NOT_DONE, USED
from tests import ROOT
from tests.docs.book import DOCS

PAGE = (DOCS / "settings.md").read_text()
NAME = re.compile(r"`([a-z]+(?:\.[a-z0-9]+)+)`")


def named(title):
    """The settings in a part of the page: those in the first column of its table, or in its list."""
    (part,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    return NAME.findall("\n".join(rows) if rows else part.partition("Placeholders")[0])


def test_each_setting_is_on_the_page_once():
    assert sorted(named("Read") + named("Not needed")) == sorted(USED)
    assert sorted(named("Not supported")) == sorted(NOT_DONE)


@pytest.mark.parametrize("title", ["Read", "Not needed"])
def test_what_is_read_is_in_the_code_and_the_rest_is_not(title):
    """Settings whose names are put together, or have a name of their own, aside."""
    code = "\n".join(path.read_text() for path in (ROOT / "kgm").rglob("*.py") if path.name != "client_settings.py")
    known = {"https.ca.location": 'f"https.ca.{name}"', "https.ca.pem": 'f"https.ca.{name}"',
             "kgm.allow.plaintext.password": "ALLOW_PLAINTEXT", "kgm.oauthbearer.token.command": "TOKEN_COMMAND"}  # fmt: skip
    for name in named(title):
        assert (known.get(name, f'"{name}"') in code) is (title == "Read"), name
