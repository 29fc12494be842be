"""The last build of a store in a directory, for readers that take every file below DIR/silver and DIR/gold.

    DIR/views/NUMBER-WRITER/{silver,gold,bronze/bad}/NAME/*.parquet      hard links to the files of a build
    DIR/current -> views/NUMBER-WRITER
    DIR/{silver,gold,bronze/bad} -> current/...

All of them change to the next build with the single rename that replaces `current`. It happens after the manifest is
put, and kgm's own readers rely on the manifest."""

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from kgm.history.store.manifest import Manifest
from kgm.pipeline.partition_work.derivation import BUILT, split

CURRENT = "current"
_VIEWS = "views"


def show(store: Path, name: str, manifest: Manifest) -> None:
    """Make a build, by the name of its manifest, visible to these readers; does nothing if it already is."""
    view = store / _VIEWS / name
    links = {CURRENT: Path(_VIEWS) / name, "bronze/bad": Path("..") / CURRENT / "bronze" / "bad"}
    links |= {layer: Path(CURRENT) / layer for layer in ("silver", "gold")}
    if all(_points_to(store / link, target) for link, target in links.items()):
        return
    for table in BUILT:
        directory = view.joinpath(*split(table))
        directory.mkdir(parents=True, exist_ok=True)
        for file in (manifest.files or {}).get(table, ()):
            with suppress(FileExistsError):  # of an attempt that died
                os.link(store / file, directory / Path(file).name)
    for link, target in links.items():
        if not _points_to(store / link, target):
            (store / link).parent.mkdir(exist_ok=True)
            made = view / ".link"
            made.unlink(missing_ok=True)
            made.symlink_to(target)
            made.replace(store / link)


def sweep(store: Path, kept: Collection[str]) -> None:
    """Delete the views of all builds but these, by the names of their manifests."""
    views = store / _VIEWS
    for view in views.iterdir() if views.is_dir() else ():
        if view.name not in kept:
            shutil.rmtree(view)


def _points_to(link: Path, target: Path) -> bool:
    return link.is_symlink() and link.readlink() == target
