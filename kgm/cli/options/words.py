"""Values of options that take several: repeatable, and separated by commas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgm.model.errors import UsageError

#: Kafka's partition numbers have 31 bits.
_MOST_DIGITS = 10
_MOST_NUMBERS = 100_000


def split_words(values: list[str] | None) -> list[str]:
    """The words of a repeatable option that also takes commas."""
    return [word.strip() for value in values or () for word in value.split(",") if word.strip()]


def listed_ids(values: Iterable[str] | None, option: str) -> tuple[str, ...]:
    """The ids of a repeatable option, with their commas and braces. Raises UsageError."""
    from kgm.text.braces import expand_list

    return _checked((name for value in values or () for name in expand_list(value, option)), option)


def _checked(names: Iterable[str], option: str) -> tuple[str, ...]:
    from kgm.text.names import check_name

    found = tuple(names)
    for name in found:
        check_name(name, option)
    return found


def known_word(word: str, option: str, known: Sequence[str]) -> str:
    """The known word that equals this one, ignoring case. Raises UsageError if there is none."""
    for one in known:
        if word.lower() == one.lower():
            return one
    from kgm.text.names import did_you_mean

    raise UsageError(f"{option}: {word!r} is not one of {', '.join(known)}", hint=did_you_mean(word, known))


def topic_names(values: list[str] | None) -> list[str]:
    """The names in --topic. Raises UsageError if the option is given without a name, or with one that cannot be."""
    names = list(_checked(split_words(values), "--topic"))
    if values and not names:
        raise UsageError("--topic: the name of the topic is empty")
    return names


def partition_numbers(values: list[str] | None) -> tuple[int, ...]:
    """The numbers in --partition: `7`, `0-3,9`. Raises UsageError."""
    numbers: list[int] = []
    for word in split_words(values):
        first, _, last = word.partition("-")
        ends = [first, last or first]
        if not all(end.isascii() and end.isdigit() and len(end) <= _MOST_DIGITS for end in ends):
            raise UsageError(f"--partition: {word!r} is not a partition", hint="write a number, or a range: 0-3,9")
        low, high = map(int, ends)
        if not low <= high < low + _MOST_NUMBERS:
            raise UsageError(f"--partition: {word!r} is not a range of partitions")
        numbers += range(low, high + 1)
    if values and not numbers:
        raise UsageError("--partition: no partition is given")
    return tuple(dict.fromkeys(numbers))
