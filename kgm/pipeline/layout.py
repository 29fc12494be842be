"""A store on disk, and how a build replaces the one before.

    DIR/bronze/raw/COMMIT/*.parquet     records; a commit is there as a whole or not at all
    DIR/builds/NUMBER/{silver,gold,bronze,carry}/..., kgm-history.json
    DIR/current -> builds/NUMBER        the last complete build
    DIR/{silver,gold,carry,bronze/bad,kgm-history.json} -> current/...
    DIR/checkpoints/...                 how far each source was read

A build is written beside the last one, with hard links to the files that stay the same, and is used from the rename of
`current` on: all of its tables at once. So every file below DIR/silver and DIR/gold is of one complete build, for any
reader. In the format Delta, DIR/{silver,gold}/NAME and the bronze tables are directories with Delta's log (`delta`);
each of them changes to the next build by one commit.

All workers must see the directory at the same path: a local disk, NFS, or a mounted volume. The file system must have
renames and links; a store that a URI names has another layout (`kgm.pipeline.remote`)."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgm.history.store.manifest import MANIFEST, Manifest, read_manifest
from kgm.model.errors import MissingFileError, RefusedError, UsageError
from kgm.pipeline.options import StoreFormat
from kgm.text.files import replace_file, try_lock

#: Format and cluster of a store, whether it was built or not.
_ABOUT = "kgm-store.json"
_CURRENT, _BUILDS = "current", "builds"
#: The newest builds are kept: a reader may have one open.
_KEPT_BUILDS = 2


@dataclass(frozen=True, slots=True)
class Store:
    """The paths of a store. Make or find it with `opened`."""

    path: Path
    format: StoreFormat
    cluster: str | None

    @property
    def raw(self) -> Path:
        return self.path / "bronze" / "raw"

    @property
    def staging(self) -> Path:
        """Commits that are being written; of no use when their writer is gone."""
        return self.path / ".staging"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def delta(self) -> bool:
        return self.format is StoreFormat.DELTA

    def table(self, name: str) -> Path:
        """Where a table of `kgm.history.schema.TABLES` is read from."""
        return self.path.joinpath(*split(name))

    def manifest(self) -> Manifest | None:
        """Of the last complete build, None if there is none. Raises UsageError for that of a newer kgm."""
        current = self.path / _CURRENT
        return read_manifest(current) if (current / MANIFEST).exists() else None

    @property
    def current(self) -> Path:
        return self.path / _CURRENT

    def build_path(self, number: int) -> Path:
        return self.path / _BUILDS / f"{number:06}"

    def finish(self, manifest: Manifest) -> None:
        """Make a build the current one, and remove old ones."""
        built = self.build_path(manifest.number)
        replace_file(built / MANIFEST, (manifest.text()).encode())
        self._link(_CURRENT, Path(_BUILDS) / built.name)
        if not self.delta:
            for layer in ("silver", "gold"):
                self._link(layer, Path(_CURRENT) / layer)
            self._link("bronze/bad", Path("..") / _CURRENT / "bronze" / "bad")
        self._link("carry", Path(_CURRENT) / "carry")
        self._link(MANIFEST, Path(_CURRENT) / MANIFEST)
        for other in (self.path / _BUILDS).iterdir():
            if other.name.isdecimal() and int(other.name) <= manifest.number - _KEPT_BUILDS:
                shutil.rmtree(other)

    def _link(self, name: str, target: Path) -> None:
        link = self.path / name
        if link.is_symlink() and link.readlink() == target:
            return
        link.parent.mkdir(parents=True, exist_ok=True)
        made = link.with_name(f".{link.name}.new")
        made.unlink(missing_ok=True)
        made.symlink_to(target)
        made.replace(link)

    @contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Hold the lock for a capture or build; it ends with the process. Raises RefusedError if another one has it."""
        with (self.path / f".{what}.lock").open("w", encoding="utf-8") as file:
            if not try_lock(file.fileno()):
                raise RefusedError(f"another {what} is running on {self.path}")
            yield


def split(name: str) -> tuple[str, str]:
    """(layer, table) of a name in `kgm.history.schema.TABLES`."""
    layer, _, rest = name.partition("_")
    return layer, rest


def opened(path: Path, *, format: StoreFormat | None, cluster: str | None, create: bool) -> Store:  # noqa: A002
    """The store in a directory, or a new one. Raises UsageError where it is of another format or cluster,
    MissingFileError where there is none and `create` is not set."""
    about = path / _ABOUT
    if not about.exists():
        if not create:
            raise MissingFileError(
                f"{path} is not a history store: {about} does not exist",
                hint=f"capture it first: kgm history capture --source kafka --out {path}",
            )
        (path / "bronze").mkdir(parents=True, exist_ok=True)
        replace_file(about, (json.dumps({"format": format or StoreFormat.PARQUET, "cluster": cluster}) + "\n").encode())
    known: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
    if format is not None and known["format"] != format:
        raise UsageError(f"the history in {path} has the format {known['format']}, not {format}")
    if cluster is not None and known["cluster"] is None:
        known["cluster"] = cluster
        replace_file(about, (json.dumps(known) + "\n").encode())
    if cluster is not None and known["cluster"] != cluster:
        raise UsageError(
            f"the history in {path} is of cluster {known['cluster']}, not of {cluster}",
            hint="a store holds one cluster: use another --out",
        )
    return Store(path, StoreFormat(known["format"]), known["cluster"])
