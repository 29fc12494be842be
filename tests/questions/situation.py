"""A situation, and the page that is made from all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.questions.stage import Answer, Stage

CHAPTERS: Final = (
    "Lag",
    "Rebalances",
    "Members",
    "Offsets and dead groups",
    "Rights and network",
    "Records and metrics",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A question as users ask it, and the scene that plays it.

    name: of its group; its topic is NAME-in. question: a heading. commands: run in this order; they print the answers.
    says: what the answers must contain, whatever else they say; it follows from what the scene did. omits: what they must
    not contain. codes: exit codes of the commands; all 0 if it is empty. before, after: text around the answers. on: the
    broker that it runs on; "embedded" only where a real one cannot be brought into the situation. topics: the number of
    partitions of each topic, by the suffix after NAME. varies: patterns of text that differs between runs. waits: whether
    the scene takes long, so that it starts early."""

    name: str
    chapter: str
    question: str
    commands: Sequence[str]
    scene: Callable[[Stage], None]
    says: Sequence[str]
    omits: Sequence[str] = ()
    codes: Sequence[int] = ()
    before: str = ""
    after: str = ""
    on: str = "kafka"
    topics: Mapping[str, int] = field(default_factory=lambda: {"-in": 2})
    varies: Sequence[str] = ()
    waits: bool = False


_INTRO: Final = """# Questions at a terminal

What operators ask, the command that answers, and what it printed: a test brings a group into each situation, on a real
Kafka, runs the command, and compares its output with this page. Groups and topics have the name of their situation. Ids,
addresses and times are normalized.
{embedded}"""


def page(situations: Sequence[Situation], blocks: Mapping[str, str]) -> str:
    """The page. blocks: the text of the console block of each situation, by its name."""
    embedded = [one for one in situations if one.on == "embedded"]
    places = ", ".join(f"[{one.question}](#{anchor(one.question)})" for one in embedded)
    exceptions = f"\nThe embedded server plays what takes too long on a broker: {places}\n" if embedded else ""
    parts = [_INTRO.format(embedded=exceptions)]
    for chapter in CHAPTERS:
        parts.append(f"- **{chapter}**")
        parts += [f"  - [{one.question}](#{anchor(one.question)})" for one in situations if one.chapter == chapter]
    for chapter in CHAPTERS:
        parts.append(f"\n## {chapter}\n")
        for one in situations:
            if one.chapter == chapter:
                texts = [f"### {one.question}", one.before, f"```console\n{blocks[one.name]}```", one.after]
                parts.append("\n\n".join(filter(None, texts)) + "\n")
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def anchor(heading: str) -> str:
    """The fragment that links to a heading of the page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def block(answers: Sequence[Answer]) -> str:
    """Commands and answers, as a terminal shows them."""
    return "\n".join(f"$ {one.command}\n{one.text}\n" for one in answers)


def blocks_of(text: str, situations: Sequence[Situation]) -> dict[str, str]:
    """The console blocks of a page by the name of the situation; "" where a block is missing."""
    found = dict.fromkeys((one.name for one in situations), "")
    for one in situations:
        shown = re.search(
            rf"^### {re.escape(one.question)}\n.*?^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        )
        if shown and "\n### " not in text[shown.start() + 4 : shown.start(1)]:
            found[one.name] = shown[1]
    return found


def comparable(shown: str, situation: Situation) -> str:
    """The text without what differs between runs: durations, generations, column widths, and the situation's `varies`."""
    for pattern in situation.varies:
        shown = re.sub(pattern, "N", shown)
    shown = re.sub(r"\b(\d+[hm] ?)?\d+(\.\d+)? ?(s|ms|m|h)\b", "1s", shown)
    shown = re.sub(r"no commit for 1s; ", "", shown)  # reported from one second on
    shown = re.sub(r"\b(generation|at offset) \d+", r"\1 1", shown)
    return re.sub(r" +", " ", shown)
