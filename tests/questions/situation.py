"""What one situation is, and the page that all of them make."""

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
    """A question as users ask it, and what plays it.

    name: of its group; its topic is NAME-in. question: a heading. commands: what answers, to be run in order. says: what
    the answers must contain, whatever else they say; it follows from what the scene did. omits: what they must not.
    codes: how the commands end; all with 0 if it is empty. before, after: text around the answers. on: the broker it plays
    on; "embedded" only where a real one cannot be brought there. topics: the partitions of each topic, by what follows
    NAME. varies: patterns of what differs between runs. waits: whether the scene waits for long."""

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
Kafka, asks, and compares this page. Groups and topics have the name of their situation. Ids, addresses and times are made
the same in every run.
{embedded}"""


def page(situations: Sequence[Situation], blocks: Mapping[str, str]) -> str:
    """The page. blocks: what stands in the console block of each situation, by its name."""
    embedded = [one for one in situations if one.on == "embedded"]
    places = ", ".join(f"[{one.question}](#{anchor(one.question)})" for one in embedded)
    exceptions = f"\nThe embedded server plays what takes a real broker long: {places}\n" if embedded else ""
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
    """The address of a heading on its page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def block(answers: Sequence[Answer]) -> str:
    """Commands and answers, as a terminal shows them."""
    return "\n".join(f"$ {one.command}\n{one.text}\n" for one in answers)


def blocks_of(text: str, situations: Sequence[Situation]) -> dict[str, str]:
    """The console blocks that a page has, by situation: "" for one that is not there."""
    found = dict.fromkeys((one.name for one in situations), "")
    for one in situations:
        shown = re.search(
            rf"^### {re.escape(one.question)}\n.*?^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        )
        if shown and "\n### " not in text[shown.start() + 4 : shown.start(1)]:
            found[one.name] = shown[1]
    return found


def comparable(shown: str, situation: Situation) -> str:
    """Without what differs between runs: durations, generations, the widths of columns, and what the situation says."""
    for pattern in situation.varies:
        shown = re.sub(pattern, "N", shown)
    shown = re.sub(r"\b(\d+[hm] ?)?\d+(\.\d+)? ?(s|ms|m|h)\b", "1s", shown)
    shown = re.sub(r"no commit for 1s; ", "", shown)  # which is told from one second on
    shown = re.sub(r"\b(generation|at offset) \d+", r"\1 1", shown)
    return re.sub(r" +", " ", shown)
