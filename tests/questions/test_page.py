"""docs/questions.md and the table of situations are the same: no question without a scene, no scene without an answer."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

from tests.docs.book import DOCS
from tests.questions import scenes
from tests.questions.situation import CHAPTERS, blocks_of, page
from tests.questions.situations import SITUATIONS

PAGE = (DOCS / "questions.md").read_text()


def test_each_situation_has_its_question_and_each_scene_its_situation():
    assert len(SITUATIONS) >= 28
    for values in ([one.name for one in SITUATIONS], [one.question for one in SITUATIONS]):
        assert len(set(values)) == len(values)
    assert {one.chapter for one in SITUATIONS} == set(CHAPTERS)
    modules = [
        importlib.import_module(f"{scenes.__name__}.{found.name}") for found in pkgutil.iter_modules(scenes.__path__)
    ]
    there = {
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert {one.scene for one in SITUATIONS} == there
    assert {tuple(inspect.signature(scene).parameters) for scene in there} == {("stage",)}


def test_each_situation_has_its_answer_on_the_page():
    blocks = blocks_of(PAGE, SITUATIONS)
    assert [name for name, block in blocks.items() if not block.strip()] == []
    for one in SITUATIONS:
        assert [line[2:] for line in blocks[one.name].splitlines() if line.startswith("$ ")] == [*one.commands]
    assert page(SITUATIONS, blocks) == PAGE


def test_links_in_the_page_lead_to_its_questions():
    places = re.findall(r"\]\(#([^)]*)\)", PAGE)
    assert len(set(places)) == len(SITUATIONS)
