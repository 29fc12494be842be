"""Descriptions of groups that are compared with later ones."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator

from kgm.client.in_parts import PART
from kgm.model.snapshot import GroupSnapshot

#: Quick: names of groups and members are much alike.
_LEVEL = 1


class HeldGroups:
    """The groups in the order in which they came. As many as do not fit into one part of a description are packed."""

    def __init__(self) -> None:
        self.group_ids: list[str] = []
        self._packed: list[bytes] = []
        self._latest: list[GroupSnapshot] = []

    def hold(self, group: GroupSnapshot) -> None:
        if len(self._latest) == PART:
            self._packed.append(zlib.compress(pickle.dumps(self._latest), _LEVEL))
            self._latest = []
        self._latest.append(group)
        self.group_ids.append(group.group_id)

    def __iter__(self) -> Iterator[GroupSnapshot]:
        for one in self._packed:
            yield from pickle.loads(zlib.decompress(one))  # noqa: S301  (of this process)
        yield from self._latest
