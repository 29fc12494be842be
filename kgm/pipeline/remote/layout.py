"""What is where in a store that a URI names, and how a build becomes the current one. See `kgm.pipeline.remote`."""

import itertools
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kgm.history.places.parquet import write_table
from kgm.history.places.remote_path import Place, RemotePath
from kgm.history.store.commit_log import LOG
from kgm.history.store.manifest import BUILDS, Manifest, newest_build
from kgm.model.errors import MissingFileError, RefusedError, UsageError
from kgm.pipeline import delta
from kgm.pipeline.layout import split
from kgm.pipeline.options import StoreFormat
from kgm.pipeline.partition_work.derivation import BUILT
from kgm.pipeline.remote.claims import CLAIMS

_ABOUT: Final = "kgm-store.json"
#: Builds that are kept whatever their age, and for how long others are after they were replaced.
_KEPT_BUILDS: Final = 2
GRACE_S = 600.0
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """The places in a store, for one writer. Make or find it with `opened`."""

    path: RemotePath
    format: StoreFormat
    cluster: str | None
    writer: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @property
    def raw(self) -> RemotePath:
        return self.path / "bronze" / "raw"

    @property
    def directories(self) -> tuple[RemotePath, ...]:
        """Those that have small files in them, which are put as a whole."""
        return self.path, self.path / CLAIMS, self.path / BUILDS, self.raw / LOG, self.raw / delta.LOG

    @property
    def delta(self) -> bool:
        return self.format is StoreFormat.DELTA

    def finish(self, manifest: Manifest) -> None:
        """Make a build the current one. Raises RefusedError if another one has overtaken it: then this one was for
        nothing, and no reader sees it."""
        made = self.path / BUILDS / f"{manifest.number:0{_DIGITS}}-{self.writer}.json"
        made.write_bytes(manifest.text().encode())
        newest = newest_build(self.path)
        if newest is None or newest[0] != made:
            raise RefusedError(
                f"another build of {self.path} was finished meanwhile, and is used instead of this one",
                hint="run it again for records that it may lack",
            )

    def sweep(self, manifest: Manifest) -> None:
        """Delete old builds, and what builds left that died. Whoever does not come to that leaves it to the next."""
        manifests = sorted((self.path / BUILDS).glob("*.json"))
        newest_ns = max((path.stat().st_mtime_ns for path in manifests), default=0)
        old: list[RemotePath] = []
        kept = manifests[-_KEPT_BUILDS:]
        for path, successor in itertools.pairwise(manifests[: 1 - _KEPT_BUILDS]):
            is_read = newest_ns - successor.stat().st_mtime_ns < GRACE_S * 1e9
            (kept if is_read else old).append(path)
        named = {file for path in kept for file in _files_of(path)}
        for path in old:
            path.unlink(missing_ok=True)
        layers = ("carry",) if self.delta else ("bronze/bad", "silver", "gold", "carry")
        for layer in layers:
            for path in self.path.joinpath(*layer.split("/")).rglob("p*.parquet"):
                name = path.relative_to(self.path).as_posix()
                number = path.name.split("-")[1][1:]
                if name not in named and number.isdecimal() and int(number) < manifest.number:
                    path.unlink(missing_ok=True)


def _files_of(path: RemotePath) -> Iterable[str]:
    try:
        files: Mapping[str, Iterable[str]] = json.loads(path.read_bytes())["files"]
    except FileNotFoundError:
        return []
    return [file for each in files.values() for file in each]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOutput:
    """Files in the tables' directories, which a manifest lists. before: those of the partition in the last build, by
    table, with their rows; none if it is built from its beginning."""

    store: RemotePath
    partition: int
    number: int
    writer: str
    before: Mapping[str, Mapping[str, int]]
    _files: dict[str, dict[str, int]] = field(default_factory=dict)

    def old(self, name: str) -> list[Place]:
        return [self.store / path for path in sorted(self.before.get(name, ()))]

    def keep(self, name: str, path: Place) -> None:
        assert isinstance(path, RemotePath)
        relative = path.relative_to(self.store).as_posix()
        self._files.setdefault(name, {})[relative] = self.before[name][relative]

    def write(self, name: str, table: pa.Table) -> None:
        """Under a name of its own: another attempt of the same task may write, too, and one that died may go on."""
        attempt = uuid.uuid4().hex[:8]
        file = f"p{self.partition:05}-b{self.number:0{_DIGITS}}-{self.writer}-{attempt}.parquet"
        path = self.store.joinpath(*split(name), file)
        write_table(table, path)
        self._files.setdefault(name, {})[path.relative_to(self.store).as_posix()] = len(table)

    def files(self) -> Mapping[str, Mapping[str, int]]:
        return self._files


def files_of_partition(manifest: Manifest, partition: int) -> dict[str, dict[str, int]]:
    """Those of a build, by table."""
    start = f"p{partition:05}-"
    return {
        name: {path: rows for path, rows in files.items() if path.rpartition("/")[2].startswith(start)}
        for name, files in (manifest.files or {}).items()
    }


def opened(path: RemotePath, *, format: StoreFormat | None, cluster: str | None, create: bool) -> RemoteStore:  # noqa: A002
    """The store of a URI, or a new one. Raises UsageError where it is of another format or cluster,
    MissingFileError where there is none and `create` is not set."""
    about = path / _ABOUT
    known = _about(about)
    if known is None:
        if not create:
            raise MissingFileError(
                f"{path} is not a history store: {about} does not exist",
                hint=f"capture it first: kgm history capture --source kafka --out {path}",
            )
        known = {"format": format or StoreFormat.PARQUET, "cluster": cluster}
        about.write_bytes((json.dumps(known) + "\n").encode())
    if format is not None and known["format"] != format:
        raise UsageError(f"the history in {path} has the format {known['format']}, not {format}")
    if cluster is not None and known["cluster"] is None:
        known["cluster"] = cluster
        about.write_bytes((json.dumps(known) + "\n").encode())
    if cluster is not None and known["cluster"] != cluster:
        raise UsageError(
            f"the history in {path} is of cluster {known['cluster']}, not of {cluster}",
            hint="a store holds one cluster: use another --out",
        )
    return RemoteStore(path, StoreFormat(known["format"]), known["cluster"])


def _about(path: RemotePath) -> dict[str, Any] | None:
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
