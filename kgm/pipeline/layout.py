"""A store on disk, and how what is in it comes to count.

    DIR/bronze/raw/COMMIT/*.parquet     records; a commit is there as a whole or not at all
    DIR/builds/NUMBER/{silver,gold,bronze,carry}/..., kgm-history.json
    DIR/current -> builds/NUMBER        the last whole build
    DIR/{silver,gold,carry,bronze/bad,kgm-history.json} -> current/...
    DIR/checkpoints/...                 how far each streaming source was read

A build is written beside the last one, with hard links to the files that stay the same, and counts from the rename of
`current` on: all of its tables at once. So every file that can be found below DIR/silver and DIR/gold is of one whole
build, for any reader. In the format Delta, DIR/{silver,gold}/NAME and the bronze tables are directories with Delta's
log (`delta`), each of which goes on to the next build by one commit.

A directory that all workers see at the same path: local disks, NFS, mounted volumes. Renames and links are what it
takes from the file system, which object stores do not have."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kgm.history.schema import VERSION
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.pipeline.options import Format

MANIFEST = "kgm-history.json"
#: What a store is, whether it was built or not; in DIR itself.
_ABOUT = "kgm-store.json"
_CURRENT, _BUILDS = "current", "builds"
#: Builds that a reader may have open still.
_KEPT_BUILDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """How far a partition was built: up to which offset (exclusive), and from how many records."""

    next_offset: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """kgm-history.json. rows: of each table."""

    number: int = 0
    format: Format = Format.PARQUET
    cluster: str | None = None
    schema_version: int = VERSION
    partitions: Mapping[int, Built] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """`built_up_to`: the offset behind the last record of each partition, and `records`: how many there were."""
        said = asdict(self)
        del said["partitions"]
        by_number = sorted(self.partitions.items())
        said["built_up_to"] = {str(number): built.next_offset for number, built in by_number}
        said["records"] = {str(number): built.records for number, built in by_number}
        return json.dumps(said, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str) -> "Manifest":
        said = json.loads(text)
        up_to, records = said.pop("built_up_to"), said.pop("records")
        partitions = {int(number): Built(next_offset=up_to[number], records=records[number]) for number in up_to}
        return cls(**{**said, "format": Format(said["format"]), "partitions": partitions})


@dataclass(frozen=True, slots=True)
class Store:
    """The paths of a store. Make or find it with `opened`."""

    path: Path
    format: Format
    cluster: str | None

    @property
    def raw(self) -> Path:
        return self.path / "bronze" / "raw"

    @property
    def staging(self) -> Path:
        """What is on its way; of no value once its writer is gone."""
        return self.path / ".staging"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def delta(self) -> bool:
        return self.format is Format.DELTA

    def table(self, name: str) -> Path:
        """Where a table of `kgm.history.schema.TABLES` is read from."""
        return self.path.joinpath(*split(name))

    def manifest(self) -> Manifest | None:
        """Of the last whole build, if there was one. Raises UsageError for a newer kgm's."""
        try:
            text = (self.path / _CURRENT / MANIFEST).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        found = json.loads(text)["schema_version"]
        if found > VERSION:
            raise UsageError(f"the history in {self.path} has tables of version {found}; this kgm writes {VERSION}")
        return Manifest.parse(text)

    @property
    def current(self) -> Path:
        return self.path / _CURRENT

    def build_path(self, number: int) -> Path:
        return self.path / _BUILDS / f"{number:06}"

    def finish(self, manifest: Manifest) -> None:
        """Let a build count, and drop those that nobody reads any more."""
        built = self.build_path(manifest.number)
        _write(built / MANIFEST, manifest.text())
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
        """Nobody else captures, or builds, meanwhile. A killed process holds nothing. Raises RefusedError."""
        with (self.path / f".{what}.lock").open("w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RefusedError(f"another {what} is at work on {self.path}") from None
            yield


def split(name: str) -> tuple[str, str]:
    """(layer, table) of a name in `kgm.history.schema.TABLES`."""
    layer, _, rest = name.partition("_")
    return layer, rest


def opened(path: Path, *, format: Format | None, cluster: str | None, create: bool) -> Store:  # noqa: A002
    """The store in a directory, or a new one. Raises UsageError where it is of another format or cluster, NotFoundError
    where there is none and `create` is not set."""
    about = path / _ABOUT
    if not about.exists():
        if not create:
            raise NotFoundError(
                f"{path} holds no history: {about} does not exist",
                hint=f"capture it first: kgm history capture --source kafka --out {path}",
            )
        (path / "bronze").mkdir(parents=True, exist_ok=True)
        _write(about, json.dumps({"format": format or Format.PARQUET, "cluster": cluster}) + "\n")
    known: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
    if format is not None and known["format"] != format:
        raise UsageError(f"the history in {path} is written in {known['format']}, not in {format}")
    if cluster is not None and known["cluster"] is None:
        known["cluster"] = cluster
        _write(about, json.dumps(known) + "\n")
    if cluster is not None and known["cluster"] != cluster:
        raise UsageError(
            f"the history in {path} is of cluster {known['cluster']}, not of {cluster}",
            hint="a store holds one cluster: give another --out",
        )
    return Store(path, Format(known["format"]), known["cluster"])


def _write(path: Path, text: str) -> None:
    """As a whole, durably."""
    made = path.with_name(f".{path.name}.new")
    with made.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)
