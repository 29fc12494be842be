"""What a machine lacks is a skip with a name; nothing is started past the helper that says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests import ROOT
from tests.needs import require_tools

pytest_plugins = ["pytester"]
_MODULES = {"subprocess", "os", "shutil", "pty", "asyncio"}
_STARTS = {
    "run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "which", "system", "popen", "spawn",
    "create_subprocess_exec", "create_subprocess_shell",
    *(f"exec{how}" for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *(f"spawn{how}" for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")), "posix_spawn", "posix_spawnp",
}  # fmt: skip
#: The first argument is a mode, not a program.
_MODE_FIRST = {name for name in _STARTS if name.startswith("spawn") and name != "spawn"}
#: A file without any of these starts nothing.
_ANY = re.compile(
    r"\bsubprocess\b|os\.(?:exec|spawn|posix_spawn|system|popen)|\bwhich\(|\bpty\.|create_subprocess|\bChild\("
)
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


class _Module:
    """Which programs a module starts by a literal name: in a call that starts one, or handed to a function of the module
    that passes its argument on to such a call."""

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTION)]
        self._scopes = [(scope, *self._below(scope)) for scope in (*functions, tree)]
        # `Child` of tests/kafka/process.py and `run` of tests/packaging/building.py start what they are given.
        self.starters = {"Child": 0} | (
            {"run": 0} if re.search(r"^from tests\.packaging\.building import .*\brun\b", source, re.MULTILINE) else {}
        )
        known = 0
        while known != len(self.starters):
            known = len(self.starters)
            for scope, calls, _ in self._scopes[:-1]:
                for call in calls:
                    self._pass_on(scope, call)

    def _below(self, scope: ast.AST) -> tuple[list[ast.Call], dict[str, ast.expr]]:
        """The calls in a function, and what its names were set to last."""
        calls, values = [], {}
        for node in ast.walk(scope):
            if isinstance(node, ast.Call):
                calls.append(node)
            elif isinstance(node, ast.Assign):
                values |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        return calls, values

    def _program(self, call: ast.Call) -> ast.expr | None:
        """The argument that has the program, if this is a call that starts one."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES and name in _STARTS:
                place = 1 if name in _MODE_FIRST else 0
            case ast.Attribute(value=ast.Name(id="self"), attr=name) | ast.Name(id=name) if name in self.starters:
                place = self.starters[name]
            case _:
                return None
        if place < len(call.args):
            return call.args[place]
        return next((each.value for each in call.keywords if each.arg in ("args", "command")), None)

    def _pass_on(self, function: _FUNCTION, call: ast.Call) -> None:
        given = _first(self._program(call), {})
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg != "self"]
        names += [function.args.vararg.arg] if function.args.vararg else []
        if isinstance(given, ast.Name) and given.id in names:
            self.starters.setdefault(function.name, names.index(given.id))

    def programs(self) -> Iterator[str]:
        for _, calls, values in self._scopes:
            for call in calls:
                given = _first(self._program(call), values)
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield given.value


def _first(words: ast.expr | None, values: dict[str, ast.expr]) -> ast.expr | None:
    """The first word of a command line, with names replaced by their values."""
    for _ in range(9):  # a name may stand for itself
        match words:
            case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]) | ast.JoinedStr(values=[first, *_]):
                words = first
            case ast.Starred(value=first) | ast.BinOp(left=first):
                words = first
            case ast.Name(id=name) if name in values:
                words = values[name]
            case _:
                break
    return words


def past_the_helper(source: str) -> set[str]:
    """The programs that a module starts by name. `kgm` is what is tested, and a path is no name."""
    if not _ANY.search(source):
        return set()
    return {name.split()[0] for name in _Module(source).programs() if name.strip() and "/" not in name} - {"kgm"}


@pytest.mark.long
@pytest.mark.slow
def test_no_program_is_started_past_the_helper():
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.name != "needs.py" and (names := past_the_helper(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        'subprocess.run(["ls", "-l"], check=True)',
        'subprocess.run(("ls", *words))',
        'subprocess.run(["ls"] + words)',
        'subprocess.run("ls -l", shell=True)',
        'subprocess.Popen(args=["ls"])',
        'subprocess.run(f"ls {name}", shell=True)',
        'shutil.which("ls")',
        'os.execvp("ls", ["ls"])',
        'os.spawnvp(os.P_WAIT, "ls", ["ls"])',
        'os.system("ls -l")',
        'asyncio.create_subprocess_exec("ls", "-l")',
        'pty.spawn(["ls"])',
        'Child(["ls"], log=log)',
        'command = ["ls", "-l"]\nsubprocess.run(command)',
        'def f():\n    command = ["ls"]\n    again = [*command, "-l"]\n    subprocess.run(again)',
        'def run(*words):\n    subprocess.run(words)\nrun("ls", "-l")',
        'def run(folder, words):\n    subprocess.run([*words, "-l"])\nrun(1, ["ls"])',
        'class A:\n    def run(self, *words):\n        subprocess.run(words)\n    def f(self):\n        self.run("ls")',
    ],
)
def test_a_program_that_is_started_by_name_is_found(source):
    assert past_the_helper(source) == {"ls"}


@pytest.mark.parametrize(
    "source",
    [
        'subprocess.run([needs("ls"), "-l"])',
        'subprocess.run([sys.executable, "-c", code])',
        'subprocess.run([*KGM, "list"])',
        'subprocess.run(["/bin/sh", "-c", "true"])',
        'def run(*words):\n    subprocess.run([*KGM, *words])\nrun("list")',
        'words = ["ls"]\nprint(words)',
        'def run(words):\n    subprocess.run([sys.executable], input=words)\nrun("ls")',
    ],
)
def test_what_names_no_program_is_not(source):
    assert past_the_helper(source) == set()


# -- what a run says ---------------------------------------------------------------------------------------------------

_TESTS = """
import pytest
from tests.needs import UnavailableError, missing, needs, needs_package

def test_one():
    needs("no-such-tool")

@pytest.mark.parametrize("number", [1, 2])
def test_two(number):
    needs("no-such-tool")

def test_package():
    needs_package("no_such_package.inner")

@pytest.fixture(scope="session")
def broker():
    raise UnavailableError("java", "no Java runtime")

def test_broker(broker): ...
def test_broker_again(broker): ...

def test_in_the_middle():
    raise UnavailableError("jars", "no network")

def test_skipped_for_another_reason():
    pytest.skip("it needs: nothing")

def test_that_runs():
    assert needs("python3")
"""
_MODULE = 'from tests.needs import needs\nneeds("no-such-tool")\n'
_CONFTEST = "from tests.needs import pytest_runtest_call, pytest_runtest_setup, pytest_terminal_summary\n"


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs these tests with the hooks, in this process or in workers; the result."""
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(test_some=_TESTS, test_whole_file=_MODULE)
    monkeypatch.setattr("tests.needs._are_required", False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer to load than all this
    return lambda *options: pytester.runpytest("-p", "xdist", *options)


@pytest.mark.parametrize("options", [["-n0"], ["-n1"]], ids=["one process", "workers"])
def test_the_summary_names_what_was_missing_and_how_many_tests_were_skipped_for_it(run, options):
    result = run(*options)
    result.assert_outcomes(passed=1, skipped=9)
    result.stdout.fnmatch_lines(
        [
            "*missing on this machine*",
            "jars: 1 skipped (no network)",
            "java: 2 skipped (no Java runtime)",
            "no-such-tool: 4 skipped (not installed)",
            "no_such_package: 1 skipped (the Python package is not installed)",
        ]
    )


def test_where_tools_are_required_a_missing_one_is_a_failure(run):
    require_tools()
    result = run("-n0", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, skipped=1, failed=5, errors=3)
    result.stdout.no_fnmatch_line("*missing on this machine*")
    result.stdout.fnmatch_lines(["*needs no-such-tool: not installed*"])


def test_nothing_is_said_where_nothing_was_missing(run):
    result = run("-n0", "-k", "that_runs or another_reason", "test_some.py")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.no_fnmatch_line("*missing on this machine*")
