"""docs/python.md: its examples are run as they are written, and the API has exactly the names that the page lists."""

import doctest
import re
import subprocess
import sys

import pytest

import kgm
from kgm.operations.demo.consumers import DemoConsumer
from kgm.testing import QUICK_SETTINGS, serve_in_thread
from tests import ROOT

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "python.md"
NAMES = ["billing-1", "billing-2", "billing-3"]
API = {
    "connect", "GroupSnapshot", "simulate", "Plan", "assign", "serve_in_thread", "plan_removal", "execute_removal",
    "explain", "KgmError", "__version__",
}  # fmt: skip


@pytest.fixture
def group():
    """A coordinator with the group `billing` of three static consumers."""
    with serve_in_thread(topics={"orders": 6}, settings=QUICK_SETTINGS) as coordinator:
        consumers = {name: DemoConsumer(coordinator.bootstrap, "billing", name, "orders") for name in NAMES}
        try:
            for consumer in consumers.values():
                consumer.start()
            coordinator.wait_until_stable("billing", members=3)
            yield coordinator.bootstrap, consumers
        finally:
            for consumer in consumers.values():
                consumer.stop()


@pytest.mark.long
def test_the_examples_of_the_page(group, monkeypatch, tmp_path):
    bootstrap, consumers = group
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(ROOT)
    names = {"bootstrap": bootstrap, "stop": lambda name: consumers.pop(name).stop()}
    examples = doctest.DocTestParser().get_doctest(PAGE.read_text(), names, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 15
    printed = []
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=printed.append)
    assert outcome.failed == 0, "".join(printed)


def test_the_api_has_these_names():
    assert set(kgm.__all__) == API
    assert set(dir(kgm)) >= API
    for name in API:
        assert getattr(kgm, name) is not None
    with pytest.raises(AttributeError):
        _ = kgm.nothing
    listed = re.findall(r"^\| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    assert {name for row in listed for name in re.findall(r"`(\w+)", row)} == API - {"__version__"}


def test_importing_kgm_imports_nothing_else():
    code = "import sys, kgm; print(sorted(name for name in sys.modules if name.startswith('kgm')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['kgm', 'kgm.version']"
