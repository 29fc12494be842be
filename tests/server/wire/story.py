"""Reading and writing stories."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tests.server.wire.requests import VERBS

FOLDER = Path(__file__).with_name("stories")
_TITLE = "=== "
_NARRATOR = ("sleep", "form")
_EVENTS = ("hears", "waits", "listens", "restarts", "disconnects", "frame")
_LABEL = re.compile(r"(v|step )([\d,-]+): ")
_INDENT = "    "
_DEVIATION = "kgm: "


@dataclass(slots=True, kw_only=True)
class Step:
    """One line: an actor does something. waits: the reply is not awaited. answers: the lines below it; deviations:
    those that kgm answers instead."""

    line: str
    actor: str = ""
    verb: str
    words: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    waits: bool = False
    answers: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)

    @property
    def pinned(self) -> int | None:
        return int(self.options["v"]) if "v" in self.options else None


@dataclass(slots=True, kw_only=True)
class Story:
    """A scenario; `layout` keeps the text around its steps, so that the file can be rewritten."""

    theme: str
    title: str
    broker: str = "quick"
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    layout: list[str | Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.theme}: {self.title}"

    def ranges(self) -> dict[str, tuple[int, int]]:
        """(lowest, highest) version of each API whose version is free."""
        found: dict[str, tuple[int, int]] = {}
        instances: dict[str, str] = {}
        for step in self.steps:
            verb = VERBS.get(step.verb)
            if step.verb == "form":
                seats = [word.partition(":") for word in step.words]
                instances |= {name: instance for name, colon, instance in seats if colon}
                # `form` sends a JoinGroup and a SyncGroup for each of its actors.
                for api, floor in (("JoinGroup", 5), ("SyncGroup", 3)):
                    if instances:
                        self._narrow(found, api, floor, None)
                    else:
                        self._narrow(found, api, 0, None)
                continue
            if verb is None:
                continue
            if step.verb in ("join", "enter") and "instance" in step.options:
                instances[step.actor] = step.options["instance"]
            instance = step.options.get("instance", instances.get(step.actor, "-"))
            if step.pinned is None:
                self._narrow(found, verb.api, *verb.bounds(step, static=instance != "-"))
        return found

    def _narrow(self, found: dict[str, tuple[int, int]], api: str, floor: int, ceiling: int | None) -> None:
        from tests.server.wire.requests import INFO

        lowest, highest = found.get(api) or self.limits.get(api) or (INFO[api].min_version, INFO[api].max_version)
        found[api] = (max(lowest, floor), highest if ceiling is None else min(highest, ceiling))

    def runs(self) -> list[dict[str, int]]:
        """The versions of each run, the newest first."""
        ranges = self.ranges()
        count = max((high - low + 1 for low, high in ranges.values()), default=1)
        return [{api: max(high - down, low) for api, (low, high) in ranges.items()} for down in range(count)]


def load(folder: Path = FOLDER) -> list[Story]:
    """Every story, by theme."""
    return [story for path in sorted(folder.glob("*.txt")) for story in parse(path.stem, path.read_text())]


def parse(theme: str, text: str) -> list[Story]:
    """The stories of one file. Text before the first title is kept with the first story."""
    stories: list[Story] = []
    titles: set[str] = set()
    before: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(_TITLE):
            title = line.removeprefix(_TITLE)
            if title in titles:
                raise ValueError(f"{theme}.txt, line {number}: a second story called {title}")
            titles.add(title)
            stories.append(Story(theme=theme, title=title, layout=[*before, line]))
            before = []
        elif not stories:
            before.append(line)
        else:
            try:
                _add(stories[-1], line)
            except (ValueError, KeyError, IndexError) as error:
                raise ValueError(f"{theme}.txt, line {number}: {line}: {error}") from error
    return stories


def _add(story: Story, line: str) -> None:
    if line.startswith(_INDENT):
        answer, step = line.removeprefix(_INDENT), story.steps[-1]
        if answer.startswith(_DEVIATION):
            step.deviations.append(answer.removeprefix(_DEVIATION))
        else:
            step.answers.append(answer)
        return
    if not line or line.startswith("#"):
        story.layout.append(line)
        return
    words = shlex.split(line)
    if words[0] == "broker":
        story.broker = words[1]
        story.layout.append(line)
    elif words[0] == "versions":
        low, _, high = words[2].partition("-")
        story.limits[words[1]] = int(low), int(high or low)
        story.layout.append(line)
    else:
        step = _step(line, words)
        story.steps.append(step)
        story.layout.append(step)


def _step(line: str, words: list[str]) -> Step:
    if words[0] in _NARRATOR:
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        return Step(line=line, verb=words[0], words=tuple(w for w in words[1:] if "=" not in w), options=options)
    actor, verb, *rest = words
    if verb not in VERBS and verb not in _EVENTS:
        raise ValueError(f"nobody can {verb}")
    waits = rest[-1:] == ["..."]
    rest = rest[:-1] if waits else rest
    options = dict(word.split("=", 1) for word in rest if _is_option(word))
    plain = tuple(word for word in rest if not _is_option(word))
    return Step(line=line, actor=actor, verb=verb, words=plain, options=options, waits=waits)


def _is_option(word: str) -> bool:
    """`orders-0=5` is a word of a commit, not an option."""
    name, equals, _ = word.partition("=")
    return bool(equals) and not re.fullmatch(r".*-\d+", name)


def text_of(stories: list[Story]) -> str:
    """The text of the file, with the current answers of the steps."""
    lines: list[str] = []
    for story in stories:
        for item in story.layout:
            if isinstance(item, str):
                lines.append(item)
            else:
                lines += [item.line, *(_INDENT + answer for answer in item.answers)]
                lines += [_INDENT + _DEVIATION + answer for answer in item.deviations]
    return "\n".join(lines) + "\n"


# -- answers in several versions


def expected(step: Step, *, version: int | None, run: int, of_kgm: bool = False) -> list[str]:
    """The answer lines for one run: those without a label, or those under the label that covers it."""
    chosen: list[str] = []
    taking = True
    for line in step.deviations if of_kgm and step.deviations else step.answers:
        label = _LABEL.match(line)
        if label is not None:
            number = version if label[1] == "v" else run
            taking = number is not None and _covers(label[2], number)
            line = line[label.end() :]  # noqa: PLW2901
        if taking:
            chosen.append(line.strip())
    return chosen


def _covers(spans: str, number: int) -> bool:
    for span in spans.split(","):
        low, _, high = span.partition("-")
        if int(low) <= number <= int(high or low):
            return True
    return False


def merged(outcomes: list[tuple[int | None, list[str]]]) -> list[str]:
    """Answer lines for a story's text, from (version, lines) of each run."""
    texts = [tuple(lines) for _, lines in outcomes]
    if len(set(texts)) == 1:
        return list(texts[0])
    by_version: dict[int | None, set[tuple[str, ...]]] = {}
    for version, lines in outcomes:
        by_version.setdefault(version, set()).add(tuple(lines))
    decided = all(len(found) == 1 for found in by_version.values())
    keys = [version if decided else run for run, (version, _) in enumerate(outcomes)]
    word = "v" if decided else "step "
    groups: dict[tuple[str, ...], list[int]] = {}
    for key, lines in zip(keys, texts, strict=True):
        assert key is not None
        groups.setdefault(lines, []).append(key)
    result: list[str] = []
    for lines, numbers in groups.items():
        label = f"{word}{_spans(sorted(set(numbers)))}: "
        shown = lines or ("",)
        result.append((label + shown[0]).rstrip() if shown[0] else label)
        result += ["  " + line for line in shown[1:]]
    return result


def _spans(numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
