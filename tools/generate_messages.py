#!/usr/bin/env python3
"""Generate kgm's message classes from the JSON schemas inside Kafka's own jars.

usage: generate_messages.py CLIENTS_JAR GROUP_COORDINATOR_JAR

Both jars come from Maven Central (org.apache.kafka:kafka-clients and org.apache.kafka:kafka-group-coordinator, same
version).  Only facts are taken over: names, types, versions, nullability, tags, defaults.  The prose of the schemas
stays where it is.  A new Kafka release is one run of this script:

    python tools/generate_messages.py kafka-clients-X.jar kafka-group-coordinator-X.jar

Written are kgm/protocol/messages/, kgm/protocol/api_table.py and kgm/records/messages/.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
import zipfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_VERSION = 32767

#: The APIs that kgm speaks, as a client, as the embedded coordinator, or in its tests.
APIS = (
    "AddOffsetsToTxn", "AddPartitionsToTxn", "AlterPartitionReassignments", "ApiVersions", "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat", "CreatePartitions", "CreateTopics", "DeleteGroups", "DeleteTopics", "DescribeCluster",
    "DescribeConfigs", "DescribeGroups", "DescribeLogDirs", "DescribeShareGroupOffsets", "ElectLeaders", "EndTxn",
    "Fetch", "FindCoordinator", "Heartbeat", "IncrementalAlterConfigs", "InitProducerId", "JoinGroup", "LeaveGroup",
    "ListGroups", "ListOffsets", "ListPartitionReassignments", "Metadata", "OffsetCommit", "OffsetDelete", "OffsetFetch",
    "Produce", "SaslAuthenticate", "SaslHandshake", "ShareGroupDescribe", "StreamsGroupDescribe", "StreamsGroupHeartbeat",
    "SyncGroup", "TxnOffsetCommit", "WriteTxnMarkers",
)  # fmt: skip
#: Consumer protocol blobs; request and response headers are hand-written in wire.py.
BLOBS = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")

PYTHON_TYPES = {
    "bool": "bool", "int8": "int", "int16": "int", "uint16": "int", "int32": "int", "uint32": "int", "int64": "int",
    "float64": "float", "string": "str", "bytes": "bytes", "records": "bytes", "uuid": "bytes",
}  # fmt: skip


def snake(name: str) -> str:
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


def load(jar: zipfile.ZipFile, name: str) -> dict[str, Any]:
    text = jar.read(f"common/message/{name}.json").decode()
    return json.loads("\n".join(re.sub(r"^\s*//.*$", "", line) for line in text.splitlines()))


def versions(text: str | None) -> tuple[int, int] | None:
    """`3+`, `0-2`, `4`, `none` as an inclusive pair."""
    if text is None or text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), MAX_VERSION
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def default_of(kind: str, field: dict[str, Any]) -> Any:
    """The default as a Python literal: None (null), [] (empty array), {} (empty struct) or a scalar.

    A JSON `null` is *no* default (Kafka's generator reads it so), only the string "null" means null."""
    raw = field.get("default")
    if raw == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "string":
        return raw if raw is not None else ""
    if kind in ("bytes", "records"):
        return b""
    if kind == "uuid":
        return bytes(16)
    if kind == "bool":
        return str(raw).lower() == "true"
    if kind == "float64":
        return float(raw or 0)
    if kind in PYTHON_TYPES:
        return int(str(raw), 0) if raw is not None else 0
    return {}


class Module:
    """One message: its structs, leaves first."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.structs: dict[str, list[tuple[Any, ...]]] = {}
        self.common = {struct["name"]: struct for struct in spec.get("commonStructs", ())}
        self.add(spec["name"], spec["fields"])

    def add(self, name: str, fields: list[dict[str, Any]]) -> None:
        rows = []
        for field in fields:
            kind = field["type"]
            element = kind.removeprefix("[]")
            if element not in PYTHON_TYPES and element not in self.structs:
                self.add(element, field.get("fields") or self.common[element]["fields"])
            rows.append(
                (
                    snake(field["name"]),
                    kind,
                    versions(field.get("versions", self.spec["validVersions"])),
                    versions(field.get("nullableVersions")),
                    default_of(kind, field),
                    bool(field.get("ignorable", False)),
                    field.get("tag"),
                    versions(field.get("taggedVersions")),
                )
            )
        self.structs[name] = rows

    def annotation(self, row: tuple[Any, ...]) -> str:
        element = row[1].removeprefix("[]")
        text = PYTHON_TYPES.get(element, element)
        text = f"list[{text}]" if row[1].startswith("[]") else text
        return f"{text} | None" if row[3] is not None or row[4] is None else text

    def struct_source(self, name: str, base: str, attributes: list[str]) -> str:
        rows = self.structs[name]
        lines = [f"class {name}({base}):"]
        slots = ", ".join(f'"{row[0]}"' for row in rows)
        lines.append(f"    __slots__ = ({slots}{',' if len(rows) == 1 else ''})")
        lines += [f"    {attribute}" for attribute in attributes]
        lines.append("    FIELDS = (")
        for row in rows:
            table_default = row[4] if not isinstance(row[4], list | dict) else ()
            shown = (*row[:4], table_default, *row[5:])
            lines.append(f"        {shown!r},")
        lines.append("    )")
        arguments, body = [], []
        for row in rows:
            field, default = row[0], row[4]
            if isinstance(default, list):
                arguments.append(f"{field}: {self.annotation(row)} = EMPTY")
                body.append(f"self.{field} = [] if {field} is EMPTY else {field}")
            elif isinstance(default, dict):
                arguments.append(f"{field}: {self.annotation(row)} = UNSET")
                body.append(f"self.{field} = {row[1]}() if {field} is UNSET else {field}")
            else:
                arguments.append(f"{field}: {self.annotation(row)} = {default!r}")
                body.append(f"self.{field} = {field}")
        lines.append("")
        lines.append("    def __init__(")
        lines.append("        self,")
        lines += [f"        {argument}," for argument in arguments]
        lines.append("    ) -> None:")
        lines += [f"        {line}" for line in body]
        lines.append("        self.unknown_tags = ()")
        return "\n".join(lines)

    def source(self, release: str) -> str:
        spec = self.spec
        low, high = versions(spec["validVersions"]) or (0, 0)
        flexible = versions(spec.get("flexibleVersions"))
        attributes = [
            f"API_KEY = {spec.get('apiKey', -1)}",
            f"MIN_VERSION = {low}",
            f"MAX_VERSION = {high}",
            f"FLEXIBLE_FROM = {flexible[0] if flexible else MAX_VERSION}",
        ]
        parts = [
            f'"""{spec["name"]}, from Apache Kafka {release}. Generated by tools/generate_messages.py: do not edit."""',
            "from kgm.protocol.struct import EMPTY, UNSET, Message, Struct  # noqa: F401",
        ]
        names = [name for name in self.structs if name != spec["name"]]
        parts += [self.struct_source(name, "Struct", []) for name in names]
        parts.append(self.struct_source(spec["name"], "Message", attributes))
        table = ", ".join(f'"{name}": {name}' for name in names)
        parts.append(f"{spec['name']}.STRUCTS = {{{table}}}")
        return "\n\n".join(parts) + "\n"


def write(folder: pathlib.Path, docstring: str, specs: list[dict[str, Any]], release: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(f'"""{docstring}"""\n')
    for spec in specs:
        (folder / f"{snake(spec['name'])}.py").write_text(Module(spec).source(release))


def main() -> int:
    clients, coordinator = (zipfile.ZipFile(path) for path in sys.argv[1:3])
    release_match = re.search(r"version=(\S+)", clients.read("kafka/kafka-version.properties").decode())
    if release_match is None:
        raise SystemExit("no version in kafka/kafka-version.properties")
    release = release_match[1]
    pairs = {api: (load(clients, f"{api}Request"), load(clients, f"{api}Response")) for api in APIS}
    write(
        ROOT / "kgm/protocol/messages",
        f"Requests and responses of Apache Kafka {release}, one module a message. Generated: do not edit.",
        [spec for pair in pairs.values() for spec in pair] + [load(clients, blob) for blob in BLOBS],
        release,
    )
    rows = []
    for api, (request, response) in sorted(pairs.items(), key=lambda item: item[1][0]["apiKey"]):
        low, high = versions(request["validVersions"]) or (0, 0)
        if request.get("latestVersionUnstable"):
            high -= 1  # not offered by a broker, unless it is told to (unstable.api.versions.enable)
        flexible = versions(request.get("flexibleVersions"))
        if request["apiKey"] != response["apiKey"]:
            raise SystemExit(f"{api}: request and response disagree on the API key")
        rows.append(f'    {request["apiKey"]}: ("{api}", {low}, {high}, {flexible[0] if flexible else MAX_VERSION}),')
    (ROOT / "kgm/protocol/api_table.py").write_text(
        f'"""API keys and versions of Apache Kafka {release}. Generated by tools/generate_messages.py: do not edit."""\n\n'
        f'KAFKA_RELEASE = "{release}"\n\n#: key: (name, lowest version, highest version, first flexible version)\n'
        "TABLE = {\n" + "\n".join(rows) + "\n}\n"
    )
    names = sorted(
        path.removeprefix("common/message/").removesuffix(".json")
        for path in coordinator.namelist()
        if path.startswith("common/message/") and path.endswith(".json")
    )
    write(
        ROOT / "kgm/records/messages",
        f"Keys and values of __consumer_offsets in Apache Kafka {release}, one module each. Generated: do not edit.",
        [load(coordinator, name) for name in names],
        release,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
