"""The files that are installed with kgm: completion scripts and manual pages."""

from __future__ import annotations

import pathlib
from importlib.resources.abc import Traversable

from kgm.model.errors import NotFoundError


def shipped_file(folder: str, name: str) -> Traversable:
    """A file in `completions` or `man`. Raises NotFoundError when kgm was installed without it.

    A wheel has them in kgm/share, a checkout next to kgm/."""
    from importlib.resources import files

    package = files("kgm")
    places: list[Traversable] = [package / "share" / folder / name]
    if isinstance(package, pathlib.Path):
        places.append(package.parent / folder / name)
    for place in places:
        if place.is_file():
            return place
    raise NotFoundError(f"{folder}/{name} was not installed with kgm")
