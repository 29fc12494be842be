"""The examples of docs/testing.md work as they are written."""

import re
import subprocess
import sys

import pytest

from tests.docs.book import DOCS

BLOCKS = re.findall(r"^```python\n(.*?)^```$", (DOCS / "testing.md").read_text(), re.MULTILINE | re.DOTALL)
#: A block that is a file begins with its name; the others are scripts.
FILES = {match[1]: block for block in BLOCKS if (match := re.match(r"# (\w+\.py)\n", block))}
SCRIPTS = [block for block in BLOCKS if block not in FILES.values()]
SUITES = [name for name in FILES if name.startswith("test_")]
TIMEOUT_S = 120


def run(folder, *arguments):
    """Run Python in a folder with the files of the page, away from the settings of this suite."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def test_the_page_has_examples_of_every_kind():
    assert {"billing.py", "test_billing.py"} <= set(FILES)
    assert len(SUITES) >= 3
    assert SCRIPTS


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_a_suite_of_the_page_passes(tmp_path, name):
    plain = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-W", "error"]
    done = run(tmp_path, "-m", "pytest", "-q", *plain, name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{FILES[name].count('def test_')} passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_of_the_page_runs(tmp_path, script):
    done = run(tmp_path, "-W", "error", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_the_first_test_of_the_page_fails_for_dynamic_members(tmp_path):
    """As the page says: without group.instance.id a restart is a new member."""
    static = '            "group.instance.id": instance_id,\n'
    assert static in FILES["billing.py"]
    suite = "test_billing.py::test_a_restart_moves_no_partition"
    (tmp_path / "conftest.py").write_text(
        "import billing\n"
        "start = billing.Billing.start\n"
        "def dynamic(self):\n"
        "    self.settings.pop('group.instance.id', None)\n"
        "    start(self)\n"
        "billing.Billing.start = dynamic\n"
    )
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:randomly", suite)
    assert done.returncode == 1
    assert "group billing had no static members billing-1 when the watch started" in done.stdout
