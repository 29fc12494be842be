"""`kgm version`: the versions of kgm, Python, the packages that the extras need, and Kafka's APIs."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options
from kgm.cli.output.report import Cell, Column, Report, Table, emit, object_table

SCHEMA = "kgm.version/v1"
_REQUIREMENT = re.compile(r"""(?P<name>[\w.-]+).*;.*\bextra\s*==\s*['"](?P<extra>[\w-]+)['"]""")
#: Extras for developing kgm itself.
_OF_DEVELOPERS = ("dev", "long", "bench")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An extra of the distribution. versions: by package that it needs; None for a package that is not installed."""

    name: str
    versions: Mapping[str, str | None]

    @property
    def is_installed(self) -> bool:
        return None not in self.versions.values()


@output_options
def version(*, options: RunOptions) -> None:
    """Show the versions of kgm, Python, the packages that the extras need, and Kafka's APIs.

    `-o wide` and the machine-readable formats also show the versions of each API."""
    from kgm.cli.output.contracts.version import api_json, extra_json
    from kgm.protocol.apis import API, KAFKA_RELEASE
    from kgm.version import __version__

    columns = {"name": "NAME", "version": "VERSION"}
    rows = [
        {"name": "kgm", "version": __version__},
        {"name": "python", "version": f"{platform.python_version()} ({platform.python_implementation()})"},
        {"name": "platform", "version": platform.platform()},
        {"name": "kafka protocol", "version": f"{KAFKA_RELEASE}, {len(API)} APIs"},
    ]
    extras = _extras()
    apis = [api_json(key, info) for key, info in sorted(API.items())]
    data = {
        "version": __version__,
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation()},
        "platform": platform.platform(),
        "extras": [extra_json(one.name, one.is_installed, one.versions) for one in extras],
        "protocol": {"kafka_release": KAFKA_RELEASE, "apis": apis},
    }
    tables = [
        object_table(columns, rows),
        _extras_table(extras),
    ]
    if options.output == "wide":
        titles = [Column(title="API"), Column(title="KEY", right=True), Column(title="VERSIONS")]
        tables.append(
            Table(
                columns=titles,
                rows=[[one["name"], one["key"], f"{one['min_version']}-{one['max_version']}"] for one in apis],
            )
        )
    emit(
        Report(
            schema=SCHEMA, data=data, tables=tables, keys=[*columns], names=[__version__], items=[data], rows=rows,
        ),
        options,
    )  # fmt: skip


def _extras() -> list[Extra]:
    """The extras of the installed distribution; empty if kgm runs without its package metadata."""
    from kgm.model.distribution import DISTRIBUTION

    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    packages: dict[str, dict[str, str | None]] = {}
    for match in filter(None, map(_REQUIREMENT.match, requirements)):
        if match["extra"] not in _OF_DEVELOPERS:
            packages.setdefault(match["extra"], {})[match["name"]] = _version_of(match["name"])
    return [Extra(name=name, versions=versions) for name, versions in packages.items()]


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extras_table(extras: list[Extra]) -> Table:
    from kgm.model.distribution import install_command

    rows: list[list[Cell]] = [
        [
            one.name,
            "yes" if one.is_installed else "no",
            ", ".join(f"{name} {version or '(missing)'}" for name, version in one.versions.items()),
        ]
        for one in extras
    ]
    missing = [one.name for one in extras if not one.is_installed]
    notes = [f"hint: {install_command(missing[0])}"] if missing else []
    return Table(
        columns=[Column(title="EXTRA"), Column(title="INSTALLED"), Column(title="PACKAGES")], rows=rows, notes=notes
    )
