"""The catalogue of behaviours of Kafka's coordinator (behaviours.toml), and the tests marked with them."""

import ast
import itertools
import pathlib
import tomllib
from dataclasses import dataclass
from functools import cache

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "behaviours.md"
_CATALOGUE = pathlib.Path(__file__).with_name("behaviours.toml")
_INTRODUCTION = """\
# Behaviors

What the group coordinator of Apache Kafka 4.3.0 does, one behavior at a time, and what kgm's does too. *Kafka* is the
class and the method that has the behavior, *kgm* the module below `kgm/coordinator`, and *tests* are the tests below
`tests/coordinator` that are marked with it (`@rule("B001")`). Numbers in a sentence are Kafka's error codes.

Besides these tests, Kafka's own coordinator and kgm's go through the same random histories in one process, and must
agree in every reply, record, timer and state (`tests/coordinator/lockstep`). Where kgm differs on purpose:
[differences](differences.md).

`tests/coordinator/test_behaviours.py` makes this page from `tests/coordinator/behaviours.toml` and the marks of the tests.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One entry of the catalogue. number: `B001`. module: below kgm/coordinator."""

    number: str
    part: str
    says: str
    kafka: str
    module: str


@dataclass(frozen=True, slots=True, order=True)
class MarkedTest:
    """A test function with its marks. path: below tests/coordinator."""

    path: str
    name: str
    numbers: tuple[str, ...]


def rule(*numbers: str) -> pytest.MarkDecorator:
    """Marks a test with the behaviours that it checks."""
    return pytest.mark.rule(*numbers)


def catalogue() -> list[Behaviour]:
    """All behaviours, in the order of the file."""
    with _CATALOGUE.open("rb") as file:
        return [Behaviour(number=number, **row) for number, row in tomllib.load(file).items()]


@cache
def marked_tests() -> tuple[MarkedTest, ...]:
    """Every test function with a mark, from the source."""
    here = pathlib.Path(__file__).parent
    tests = []
    for path in sorted(here.rglob("test_*.py")):
        text = path.read_text()
        if f"from {__name__} import" in text:
            tests += [
                MarkedTest(str(path.relative_to(here)), node.name, numbers)
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.FunctionDef) and (numbers := _numbers(node))
            ]
    return tuple(tests)


def _numbers(function: ast.FunctionDef) -> tuple[str, ...]:
    return tuple(
        ast.literal_eval(argument)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "rule"
        for argument in decorator.args
    )


def page() -> str:
    """docs/behaviours.md."""
    sections = [_INTRODUCTION.rstrip()]
    for part, behaviours in itertools.groupby(catalogue(), key=lambda behaviour: behaviour.part):
        head = ["| | behavior | Kafka | kgm | tests |", "|---|---|---|---|---|"]
        sections += [f"## {part}", "\n".join([*head, *map(_row, behaviours)])]
    return "\n\n".join(sections) + "\n"


def _row(behaviour: Behaviour) -> str:
    tests = [test for test in marked_tests() if behaviour.number in test.numbers]
    names = dict.fromkeys([*(test.path for test in tests), *(test.name for test in tests)])
    cells = (
        behaviour.number,
        behaviour.says,
        f"`{behaviour.kafka}`",
        f"`{behaviour.module}`",
        "<br>".join(f"`{name}`" for name in names),
    )
    return f"| {' | '.join(cells)} |"
