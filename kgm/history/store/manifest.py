"""builds/NUMBER-WRITER.json: a built store's description of itself; kgm-history.json in older stores."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from kgm.history.places.remote_path import Place, text_of
from kgm.history.places.small_files import listed
from kgm.history.schema import VERSION
from kgm.model.errors import MissingFileError, UsageError

#: The manifests, NUMBER-WRITER.json.
BUILDS = "builds"
#: The manifest of a store that an older kgm built, or that someone assembled by hand.
MANIFEST = "kgm-history.json"
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """How far a partition was built: up to which offset (exclusive), and from how many records. unconfirmed_until: the
    records before this offset were read before later ones went missing, which may be what deleted theirs; see
    `HistoryOrigin`."""

    next_offset: int
    records: int
    unconfirmed_until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """number: of the build. format: "parquet" or "delta". partitions: of `__consumer_offsets`. rows: how many each
    table has. files: of each table and `carry`, by their paths in the store, with their row counts; None in older
    stores."""

    number: int = 0
    format: str = "parquet"
    cluster: str | None = None
    schema_version: int = VERSION
    partitions: Mapping[int, PartitionProgress] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, int]] | None = None

    def text(self) -> str:
        """The manifest as JSON. `built_up_to`: the offset after each partition's last record; `records`: its count."""
        by_number = sorted(self.partitions.items())
        content: dict[str, Any] = {
            "number": self.number, "format": self.format, "cluster": self.cluster,
            "schema_version": self.schema_version, "rows": dict(self.rows),
            "built_up_to": {str(number): built.next_offset for number, built in by_number},
            "records": {str(number): built.records for number, built in by_number},
            "unconfirmed_until": {str(number): built.unconfirmed_until for number, built in by_number},
        }  # fmt: skip
        if self.files is not None:
            content["files"] = {name: dict(files) for name, files in self.files.items()}
        return json.dumps(content, indent=1) + "\n"


def read_manifest(directory: Place) -> Manifest:
    """The manifest of a built store. Raises MissingFileError if there is none, UsageError for one that kgm did not
    write or that is from a newer kgm."""
    if (newest := newest_build(directory)) is not None:
        return newest[1]
    file = directory / MANIFEST
    try:
        data = text_of(file).encode(errors="surrogateescape")
    except NotADirectoryError:
        raise UsageError(f"{directory} is not a directory") from None
    except FileNotFoundError:
        raise MissingFileError(
            f"{directory} holds no built history: there is no {BUILDS}/*.json",
            hint=f"build it: kgm history build --source segments:DIR --out {directory}",
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"file {file} is not valid JSON: {error}") from error
    return _decoded(data, file, directory)


def newest_build(store: Place) -> tuple[Place, Manifest] | None:
    """The manifest of a store's last complete build, and where it is. If two have the same number, every reader picks
    the same one."""
    for _ in range(_TRIES):
        paths = [path for path, stat in listed(store / BUILDS, "*.json").items() if stat.st_size]
        if not paths:
            return None
        newest = paths[-1]
        try:
            return newest, _decoded(newest.read_bytes(), newest, store)
        except FileNotFoundError:
            continue  # two newer ones have arrived
    raise UsageError(f"the builds in {store} change faster than they can be read", hint="run it again")


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Version(msgspec.Struct):
    schema_version: _Count = VERSION


class _Content(_Version):
    """The content of the file, see `Manifest.text`."""

    number: _Count = 0
    format: str = "parquet"
    cluster: str | None = None
    rows: dict[str, _Count] = {}
    files: dict[str, dict[str, _Count]] | None = None
    built_up_to: dict[_Count, _Count] = {}
    records: dict[_Count, _Count] = {}
    unconfirmed_until: dict[_Count, _Count] = {}


def _decoded(data: bytes, file: Place, directory: Place) -> Manifest:
    try:
        version = msgspec.json.decode(data, type=_Version).schema_version
        if version > VERSION:
            raise UsageError(f"the history in {directory} has tables of version {version}; this kgm reads {VERSION}")
        content = msgspec.json.decode(data, type=_Content)
    except msgspec.ValidationError as error:
        raise UsageError(f"file {file} was not written by kgm history build", facts=(str(error),)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"file {file} is not valid JSON: {error}") from error
    return Manifest(
        number=content.number, format=content.format, cluster=content.cluster, schema_version=version,
        rows=content.rows, files=content.files,
        partitions={
            number: PartitionProgress(
                next_offset=offset, records=content.records.get(number, 0),
                unconfirmed_until=content.unconfirmed_until.get(number, 0),
            )
            for number, offset in content.built_up_to.items()
        },
    )  # fmt: skip
