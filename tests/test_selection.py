"""The options of a run: what is left out without `--long`, in which order files begin, and which line repeats a failure."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tests import ROOT, selection

pytest_plugins = ["pytester"]
_CONFTEST = """
import pytest
from tests import selection
from tests.selection import pytest_collection_modifyitems

def pytest_addoption(parser):
    selection.add_options(parser)

def pytest_configure(config):
    selection.configure(config)
    for mark in ("few(number)", "long", "scenes", "slow", "spark"):
        config.addinivalue_line("markers", f"{mark}: as in the suite")

@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    selection.tell_worker(node.workerinput)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed and (line := selection.repeating_line(item.nodeid)):
        report.sections.append(("the same cases again", line))
    return report
"""
_SIZES = """
import pytest
from tests.selection import first_seed, sized

@pytest.mark.parametrize("case", range(sized(2, 5)))
def test_some(case): ...

@pytest.mark.long
def test_sweep(): ...

def test_seed(record_property):
    assert first_seed() in (0, 7_000_000)

def test_fails():
    assert first_seed() == 0
"""
_ANY_OF_FIVE = '@pytest.mark.parametrize("case", range(5))'


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs files of tests with these options in a process of its own, which has read nothing yet."""
    pytester.makeconftest(_CONFTEST)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def play(*options, **files):
        pytester.makepyfile(**files)
        return pytester.runpytest_subprocess("-p", "pytest_timeout", *options)

    return play


@pytest.mark.slow
def test_a_plain_run_leaves_the_sweeps_out(run):
    result = run(test_sizes=_SIZES)
    result.assert_outcomes(passed=4, deselected=1)


@pytest.mark.slow
def test_only_what_a_plain_run_leaves_out_can_be_run(run):
    cases = _SIZES.replace(
        '@pytest.mark.parametrize("case", range(sized(2, 5)))', "@pytest.mark.few(2)\n" + _ANY_OF_FIVE
    )
    run(test_sizes=cases).assert_outcomes(passed=4, deselected=4)
    run("--long", "-m", "long", test_sizes=cases).assert_outcomes(passed=4, deselected=4)


@pytest.mark.slow
def test_a_failure_is_told_with_the_line_that_repeats_it(run):
    result = run("--long", "--seed=7", test_sizes=_SIZES)
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(
        ["*the same cases again*", "python -m pytest --long --seed=7 test_sizes.py::test_fails"]
    )


@pytest.mark.long
@pytest.mark.slow
def test_all_workers_have_the_seed_that_one_process_drew(run):
    cases = "import pytest\nfrom tests.selection import first_seed\n"
    cases += '@pytest.mark.parametrize("seed", [first_seed()])\ndef test_one(seed): ...\n'
    run("-p", "xdist", "-n", "2", "--seed", test_cases=cases).assert_outcomes(passed=1)


@pytest.mark.slow
def test_files_that_wait_are_spread_between_those_that_compute_for_long(run):
    waiting = "import pytest\npytestmark = pytest.mark.scenes\ndef test_one(): ...\n"
    slow = waiting.replace("scenes", "slow")
    files = {f"test_{number:02}": slow if number % 2 else "def test_one(): ...\n" for number in range(20)}
    result = run("-v", **files, test_90=waiting, test_91=waiting)
    order = [line.partition(".py")[0] for line in result.outlines if line.startswith("test_")]
    first, quick = (
        [f"test_{number:02}" for number in range(1, 20, 2)],
        [f"test_{number:02}" for number in range(0, 20, 2)],
    )
    assert order == ["test_90", *first[:4], "test_91", *first[4:], *quick]


def test_files_that_run_together_are_one_part_of_the_work():
    files = {file: of for file, of in selection.TOGETHER.items() if (ROOT / file).is_file()}
    assert files == selection.TOGETHER
    assert {selection.part_of_the_work(f"{file}::test_one[a::b]") for file in files} == set(files.values())
    assert selection.part_of_the_work("tests/test_house.py::test_one[a::b]") == "tests/test_house.py"


def test_tests_that_take_minutes_are_parts_of_their_own():
    assert [file for file in selection.APART if not (ROOT / file).is_file()] == []
    scenes = [f"{file}::test_one[{number}]" for file in selection.APART for number in range(2)]
    assert [selection.part_of_the_work(one) for one in scenes] == scenes


def test_each_worker_imports_from_another_place_on(tmp_path, monkeypatch):
    (tmp_path / "imported").mkdir()
    for name in "abcd":
        (tmp_path / f"imported/test_{name}.py").write_text("raise ImportError" if name == "d" else "")
    monkeypatch.syspath_prepend(tmp_path)
    worker = {"workerid": "gw1", "workercount": 2}
    config = SimpleNamespace(workerinput=worker, args=["imported", "imported/test_a.py::test_one"], rootpath=tmp_path)
    selection.import_in_turn(config)
    assert [name for name in sys.modules if name.startswith("imported.")] == [f"imported.test_{name}" for name in "cab"]
    for name in ("imported", *(f"imported.test_{name}" for name in "abc")):
        del sys.modules[name]
