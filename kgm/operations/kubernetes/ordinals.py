"""Pods of a StatefulSet: `NAME-0` to `NAME-N`, where those with the highest numbers are removed first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kgm.text.braces import as_list

_POD: Final = re.compile(r"(.*[^-])-(0|[1-9]\d{0,8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedPod:
    """The name of a StatefulSet's pod, split into its parts."""

    stateful_set: str
    ordinal: int

    @classmethod
    def of(cls, name: str) -> NumberedPod | None:
        """The parts of the name; None for a name that no StatefulSet generates."""
        match = _POD.fullmatch(name)
        return None if match is None else cls(stateful_set=match[1], ordinal=int(match[2]))


def braced(names: Sequence[str]) -> str:
    """A list of names in the form that `--instance-ids` takes: `app-{2..4}` for app-2, app-3 and app-4."""
    numbered = [NumberedPod.of(name) for name in names]
    if len(names) < 2:
        return as_list(names)
    ordinals = [one.ordinal for one in numbered if one is not None]
    sets = {None if one is None else one.stateful_set for one in numbered}
    if None in sets or len(sets) != 1 or ordinals != list(range(ordinals[0], ordinals[0] + len(ordinals))):
        return as_list(names)
    return f"{as_list(filter(None, sets))}-{{{ordinals[0]}..{ordinals[-1]}}}"
