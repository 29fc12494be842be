"""Where everything is in a store, and how a build becomes the current one. See `kgm.pipeline.store`."""

import itertools
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kgm.history.places.remote_path import Place, below
from kgm.history.places.small_files import listed, put
from kgm.history.store.commit_log import LOG
from kgm.history.store.manifest import BUILDS, Manifest, newest_build
from kgm.model.errors import MissingFileError, RefusedError, UsageError
from kgm.pipeline.options import StoreFormat
from kgm.pipeline.partition_work.derivation import BUILT, DIGITS
from kgm.pipeline.store import delta, older, shown
from kgm.pipeline.store.claims import CLAIMS

_ABOUT: Final = "kgm-store.json"
#: The layout's version. In a directory, 1 is the one of `older`; stores named by a URI have always had version 2.
_VERSION: Final = 2
#: How many builds are kept regardless of age, and for how long others are kept after they were replaced.
_KEPT_BUILDS: Final = 2
GRACE_S = 600.0


@dataclass(frozen=True, slots=True)
class Store:
    """The places in a store, for one writer. Use `opened` to create or find one."""

    path: Place
    format: StoreFormat
    cluster: str | None
    writer: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @property
    def raw(self) -> Place:
        return self.path / "bronze" / "raw"

    @property
    def directories(self) -> tuple[Place, ...]:
        """The directories with files that may not have been renamed into place."""
        return self.path, self.raw, self.path / CLAIMS, self.path / BUILDS, self.raw / LOG, self.raw / delta.LOG

    @property
    def delta(self) -> bool:
        return self.format is StoreFormat.DELTA

    @property
    def is_shown(self) -> bool:
        """Whether DIR/silver and DIR/gold are links for readers that take every file (`shown`). Delta has a log."""
        return isinstance(self.path, Path) and not self.delta

    @property
    def tables(self) -> Place:
        """Where the files of tables go."""
        return self.path / "tables" if self.is_shown else self.path

    def finish(self, manifest: Manifest) -> None:
        """Make a build the current one. Raises RefusedError if another one has overtaken it: then this build is unused,
        and no reader sees it."""
        made = self.path / BUILDS / f"{manifest.number:0{DIGITS}}-{self.writer}.json"
        put(made, manifest.text().encode())
        newest = newest_build(self.path)
        if newest is None or newest[0] != made:
            raise RefusedError(
                f"another build of {self.path} was finished meanwhile, and is used instead of this one",
                hint="run it again for records that it may lack",
            )
        self.show(made, manifest)

    def show(self, path: Place, manifest: Manifest) -> None:
        """Make a build whose manifest exists visible to readers that take every file."""
        if self.is_shown and isinstance(self.path, Path):
            shown.show(self.path, path.stem, manifest)

    def sweep(self, manifest: Manifest) -> None:
        """Delete old builds, and files of builds that died. If this is not reached, the next build does it."""
        manifests = listed(self.path / BUILDS, "*.json")
        newest_ns = max((stat.st_mtime_ns for stat in manifests.values()), default=0)
        old: list[Place] = []
        paths = list(manifests)
        kept = paths[-_KEPT_BUILDS:]
        for path, successor in itertools.pairwise(paths[: 1 - _KEPT_BUILDS]):
            is_read = newest_ns - manifests[successor].st_mtime_ns < GRACE_S * 1e9
            (kept if is_read else old).append(path)
        named = {file for path in kept for file in _files_of(path)}
        for path in old:
            path.unlink(missing_ok=True)
        layers = ("carry",) if self.delta else ("bronze/bad", "silver", "gold", "carry")
        for layer in layers:
            for path in self.tables.joinpath(*layer.split("/")).rglob("*p?????-b*.parquet*"):
                name = "/".join(below(self.path, path))
                number = path.name.split("-")[1][1:]
                if name not in named and number.isdecimal() and int(number) < manifest.number:
                    path.unlink(missing_ok=True)
        if isinstance(self.path, Path):
            shown.sweep(self.path, {path.stem for path in kept})
            older.sweep(self.path)


def _files_of(path: Place) -> Iterable[str]:
    try:
        files: Mapping[str, Iterable[str]] = json.loads(path.read_bytes())["files"]
    except FileNotFoundError:
        return []
    return [file for each in files.values() for file in each]


def files_of_partition(manifest: Manifest, partition: int) -> dict[str, dict[str, int]]:
    """A partition's files in a build, by table."""
    start = f"p{partition:05}-"
    return {
        name: {path: rows for path, rows in files.items() if path.rpartition("/")[2].startswith(start)}
        for name, files in (manifest.files or {}).items()
    }


def opened(path: Place, *, format: StoreFormat | None, cluster: str | None, create: bool) -> Store:  # noqa: A002
    """The store at a place, or a new one; one from an older kgm is taken over. Raises UsageError if it is for another
    format or cluster, or from a newer kgm; RefusedError while an older kgm works on it; MissingFileError if there is
    none and `create` is not set."""
    about = path / _ABOUT
    known = _about(about)
    if known is None:
        if not create:
            raise MissingFileError(
                f"{path} is not a history store: {about} does not exist",
                hint=f"capture it first: kgm history capture --source kafka --out {path}",
            )
        known = {"version": _VERSION, "format": format or StoreFormat.PARQUET, "cluster": cluster}
        _put(about, known)
    if known.get("version", 1) > _VERSION:
        raise UsageError(f"the history in {path} is of a newer kgm: it has the layout {known['version']}")
    if format is not None and known["format"] != format:
        raise UsageError(f"the history in {path} has the format {known['format']}, not {format}")
    if cluster is not None and known["cluster"] is None:
        known["cluster"] = cluster
        _put(about, known)
    if cluster is not None and known["cluster"] != cluster:
        raise UsageError(
            f"the history in {path} is of cluster {known['cluster']}, not of {cluster}",
            hint="a store holds one cluster: use another --out",
        )
    if isinstance(path, Path) and "version" not in known:
        older.take_over(path)
        _put(about, {"version": _VERSION, **known})
    return Store(path, StoreFormat(known["format"]), known["cluster"])


def _put(about: Place, known: Mapping[str, Any]) -> None:
    put(about, (json.dumps(known) + "\n").encode())


def _about(path: Place) -> dict[str, Any] | None:
    try:
        known: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(f"{path} was not written by kgm: {error}") from error
    return known


def counts_of(files: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The rows of each table."""
    return {name: sum(files.get(name, {}).values()) for name in BUILT}
