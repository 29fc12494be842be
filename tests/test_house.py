"""The shape of the house: layers, purity, rooms that explain themselves, modules that stay small enough to know."""

import ast
import collections
import functools
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest

from kgm.model.distribution import DISTRIBUTION
from tests import ROOT
from tests.needs import needs

HAND_WRITTEN = [
    path
    for path in sorted((ROOT / "kgm").rglob("*.py"))
    if path.parent.name != "messages" and path.name not in ("api_table.py", "released_apis.py")
]
ROOMS = sorted({path.parent.relative_to(ROOT) for path in (ROOT / "kgm").rglob("*.py")})
MOST_MODULES = 16
#: The home of somebody, or a folder that one machine has: of no use to who reads it elsewhere.
MACHINE_PATH = re.compile(r"(?<![\w.~{}])/(?:home|Users|root|work|tmp|private|scratch)/[\w.-]+")
INVENTED_PATHS = {"/home/somebody"}


def nodes_of(path):
    return ast.walk(ast.parse(path.read_text(), path.name))


@functools.cache
def definitions():
    """(file, type of node, name, lines of its body) of each class and function: each file is parsed once, and its tree is not kept."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [
        (str(path.relative_to(ROOT)), type(node), node.name, node.end_lineno - node.body[0].lineno + 1)
        for path in HAND_WRITTEN
        for node in nodes_of(path)
        if isinstance(node, kinds)
    ]


def test_modules_and_functions_stay_small():
    """The options in a command's signature are data: what counts of a function is its body."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in HAND_WRITTEN}
    assert {name: length for name, length in lengths.items() if length > 500} == {}
    long = [
        f"{file}: {name}: {lines} lines"
        for file, kind, name, lines in definitions()
        if kind is not ast.ClassDef and lines > 60
    ]
    assert long == []


def test_no_room_has_more_modules_than_one_can_look_over():
    count = collections.Counter(path.parent.relative_to(ROOT) for path in HAND_WRITTEN if path.name != "__init__.py")
    assert {str(room): modules for room, modules in count.items() if modules > MOST_MODULES} == {}


def test_a_room_says_what_lives_in_it():
    told = {room: ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) for room in ROOMS}
    assert [str(room) for room, text in told.items() if not text] == []


def test_a_class_name_stands_for_one_thing():
    """Private classes and generated messages aside."""
    places = collections.defaultdict(list)
    for file, kind, name, _ in definitions():
        if kind is ast.ClassDef and not name.startswith("_"):
            places[name].append(file)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def imports_in(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.long
def test_no_module_imports_itself_by_a_detour():
    """Imports inside of functions count, those for types only do not."""
    names = {module_name(path): path for path in (ROOT / "kgm").rglob("*.py")}
    imported = {}
    for name, path in names.items():
        found = {each if each in names else each.rpartition(".")[0] for each in run_time_imports(path)}
        imported[name] = found & names.keys() - {name}
    assert sum(map(len, imported.values())) > 3_000
    # Take away what imports nothing, and what nothing imports: what is left is in a circle, or between two.
    while ends := {name for name, found in imported.items() if not found} | imported.keys() - set().union(
        *imported.values()
    ):
        imported = {name: found - ends for name, found in imported.items() if name not in ends}
    assert imported == {}


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def run_time_imports(path):
    """The imports of a module, without those for types only."""
    every = list(nodes_of(path))
    for_types = {
        inner
        for node in every
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return imports_in(node for node in every if node not in for_types)


LAYERS = sorted(
    {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")} - {"cli"}
)


@pytest.mark.few(5)
@pytest.mark.parametrize("layer", LAYERS)
def test_tests_of_other_layers_do_not_import_the_command_line(layer):
    """They may start kgm as a process."""
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "tests" / layer).rglob("*.py")
        if "cli" in path.read_text()  # or there is nothing to parse it for
        for name in imports_in(nodes_of(path))
        if name == "kgm.cli" or name.startswith("kgm.cli.")
    }
    assert found == set()


def tracked_files():
    listed = subprocess.run([needs("git"), "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_file_names_a_folder_of_somebodys_machine():
    found = set()
    for path in tracked_files():
        try:
            text = path.read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # not a text, or deleted and not committed yet
        found |= {(str(path.relative_to(ROOT)), match) for match in MACHINE_PATH.findall(text)}
    assert {(name, match) for name, match in found if match not in INVENTED_PATHS} == set()


#: `kgm` on PyPI is a package of somebody else.
STRANGER = re.compile(
    r"(?<!kafka-)(?<!kafka\\-)kgm\\?\[\w|(?:pip|pipx|uv tool) install (?:-\S+ )*'?kgm\b|(?:uvx|--from) kgm(?![\\\w])"
)


def test_no_hint_names_a_package_that_is_not_ours():
    metadata = importlib.metadata.metadata(DISTRIBUTION)
    assert metadata["Name"] == "kafka-kgm"
    texts = {path: path.read_text(errors="replace") for path in tracked_files() if path.is_file()}
    found = {
        (str(path.relative_to(ROOT)), match[0]) for path, text in texts.items() for match in STRANGER.finditer(text)
    }
    assert found == set()
    extras = set(metadata.get_all("Provides-Extra"))
    hinted = {
        name for text in texts.values() for name in re.findall(r"kafka-kgm\[(\w+)\]|install_command\(.(\w+).\)", text)
    }
    assert {name for pair in hinted for name in pair if name} <= extras


def rooms_on_the_map():
    """The folders that the map of docs/architecture.md names: `kgm/NAME` at the start of a line, and below it, indented by two, the
    names of the rooms in there."""
    (block,) = re.findall(
        r"^## Map\n.*?^```\n(.*?)^```", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE | re.DOTALL
    )
    above = ""
    for line in block.splitlines():
        if inner := re.match(r"  (\w+) ", line):
            yield f"{above}/{inner[1]}"
        elif not line.startswith(" "):
            for name in line.split("  ")[0].split():
                above = name.rstrip("/")
                yield above


def test_the_map_is_the_tree():
    rooms = {str(room) for room in ROOMS if 2 <= len(room.parts) <= 3}
    named = list(rooms_on_the_map())
    assert len(named) == len(set(named))
    assert {name for name in named if name.startswith("kgm/")} == rooms
    assert [name for name in named if not (ROOT / name).is_dir()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["lint-imports"], ["ruff", "check", "."], pytest.param(["mypy"], marks=pytest.mark.long)],
    ids=lambda command: command[0],
)
def test_checkers_pass(command):
    tool = pathlib.Path(sys.executable).with_name(command[0])
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_no_command_imports_what_is_heavy_before_it_runs():
    """So that the help of any command, and its schema, are there at once, whatever commands are added."""
    code = (
        "import sys; from tools.manual.tree import click_tree; assert len(click_tree().commands) > 8;"
        "heavy = {'asyncio', 'ssl', 'rich.console', 'tabulate', 'confluent_kafka', 'pyspark', 'pyarrow', 'pandas', 'numpy',"
        " 'msgspec', 'yaml', 'kgm.server', 'kgm.simulation.play', 'kgm.coordinator.engine', 'kgm.history.derive'};"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""


def test_help_does_not_import_what_it_does_not_need():
    """Start-up is a promise: --help stays clear of everything heavy."""
    code = (
        "import sys; from kgm.cli.main import run; run(['--help']);"
        "heavy = {'asyncio', 'ssl', 'rich.console', 'tabulate', 'confluent_kafka', 'pyspark', 'numpy', 'yaml', 'kgm.protocol.codec'};"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "Usage: kgm" in done.stdout
    assert done.stderr == ""


def test_the_readme_is_one_that_is_read():
    """It says what kgm is, sets it up and shows a session; everything else is on pages of docs/."""
    assert (ROOT / "README.md").stat().st_size <= 10_000
