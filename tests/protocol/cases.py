"""Every generated message, and random instances of each: from kgm's tables, and from the schemas in Kafka's jars."""

import base64
import importlib
import json
import pkgutil
import random
import re
import zipfile
from functools import cache

import kgm.protocol.messages
import kgm.records.messages
from kgm.protocol.struct import Field, Message
from tests.kafka.jars import KAFKA_VERSION, jars


def _messages(package):
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        yield from (
            cls
            for cls in vars(module).values()
            if isinstance(cls, type) and issubclass(cls, Message) and cls.__module__ == module.__name__
        )


MESSAGES = [*_messages(kgm.protocol.messages), *_messages(kgm.records.messages)]
EVERY = [(cls, version) for cls in MESSAGES for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1)]
INTEGERS = {
    "int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1),
}  # fmt: skip
#: One, two, three and four bytes of UTF-8; the last is two units of Java's UTF-16.
ALPHABET = "az09-._ \0\x7féßЖ中\uffff😀"


#: Lengths that are negative, huge, or one past what fits.
LENGTHS = [
    b"\xff\xff", b"\x7f\xff", b"\x80\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xfe",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x00", b"\x00", b"\xff\x7f",
]  # fmt: skip


def within(version, span):
    return span is not None and span[0] <= version <= span[1]


def integer(kind, rng):
    low, high = INTEGERS[kind]
    return rng.choice([low, high, rng.randint(low, high), rng.randint(max(low, -2), 2), 0])


def size(rng, most=3):
    """A length: usually small, sometimes across a boundary of the length's own encoding."""
    return rng.choice([126, 127, 128, 300]) if rng.random() < 0.02 else rng.randint(0, most)


def text(rng):
    return "".join(rng.choice(ALPHABET) for _ in range(size(rng, 8)))


class FromTables:
    """Random messages from kgm's own tables; fields that a version lacks keep their default."""

    def __init__(self, cls, version, rng):
        self.cls, self.version, self.rng = cls, version, rng

    def message(self):
        return self.struct(self.cls)

    def struct(self, cls):
        values = {}
        for row in (Field(*row) for row in cls.FIELDS):
            if within(self.version, row.versions) and not (row.tag is not None and self.rng.random() < 0.3):
                values[row.name] = self.value(row.kind, within(self.version, row.nullable))
        result = cls(**values)
        if self.version >= self.cls.FLEXIBLE_FROM and self.rng.random() < 0.1:
            tags = sorted(self.rng.sample(range(50, 50_000), 2))
            result.unknown_tags = tuple((tag, self.rng.randbytes(size(self.rng))) for tag in tags)
        return result

    def value(self, kind, nullable):
        if nullable and self.rng.random() < 0.25:
            return None
        if kind.startswith("[]"):
            most = 3 if self.rng.random() < 0.9 else 0
            count = size(self.rng, most) if kind[2:] in INTEGERS else self.rng.randint(0, most)
            return [self.value(kind[2:], nullable=False) for _ in range(count)]
        if kind in INTEGERS:
            return integer(kind, self.rng)
        match kind:
            case "bool":
                return self.rng.random() < 0.5
            case "string":
                return text(self.rng)
            case "bytes" | "records":
                return self.rng.randbytes(size(self.rng, 8))
            case "uuid":
                return self.rng.randbytes(16)
            case "float64":
                return self.rng.choice([0.0, 1.5, -2e300, self.rng.random()])
        return self.struct(self.cls.STRUCTS[kind])


@cache
def schemas():
    """{name: schema} of every message and record in Kafka's jars."""
    found = {}
    for name in (f"kafka-clients-{KAFKA_VERSION}.jar", f"kafka-group-coordinator-{KAFKA_VERSION}.jar"):
        with zipfile.ZipFile(jars() / name) as archive:
            for path in archive.namelist():
                if re.fullmatch(r"common/message/\w+\.json", path):
                    lines = archive.read(path).decode().splitlines()
                    schema = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                    found[schema["name"]] = schema
    return found


def span(text):
    """ "0-3", "2+", "5" or "none" as an inclusive pair, or None."""
    if text in (None, "none"):
        return None
    low, _, high = text.partition("-")
    return (int(text[:-1]), 32767) if text.endswith("+") else (int(low), int(high or low))


class FromSchema:
    """Random messages in Kafka's JSON form, from Kafka's own schema, without kgm's tables."""

    def __init__(self, schema, version, rng):
        self.version, self.rng = version, rng
        self.schema = schema
        self.common = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}

    def message(self):
        return self.struct(self.schema["fields"])

    def struct(self, fields):
        values = {}
        for field in fields:
            if within(self.version, span(field.get("versions", field.get("taggedVersions")))):
                if "tag" in field and self.rng.random() < 0.3:
                    continue
                nullable = within(self.version, span(field.get("nullableVersions")))
                values[field["name"][0].lower() + field["name"][1:]] = self.value(field["type"], field, nullable)
        return values

    def value(self, kind, field, nullable):
        if nullable and self.rng.random() < 0.25:
            return None
        if kind.startswith("[]"):
            return [self.value(kind[2:], field, nullable=False) for _ in range(self.rng.randint(0, 3))]
        if kind in INTEGERS:
            return integer(kind, self.rng)
        match kind:
            case "bool":
                return self.rng.random() < 0.5
            case "string":
                return text(self.rng)
            case "bytes" | "records":
                return base64.b64encode(self.rng.randbytes(size(self.rng, 8))).decode()
            case "uuid":
                return uuid_text(self.rng.randbytes(16))
            case "float64":
                return self.rng.choice([0.0, 1.5, -2e300])
        return self.struct(field.get("fields") or self.common[kind])


def uuid_text(value):
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def rng_for(*what):
    return random.Random(" ".join(map(str, what)))


def damaged(data, rng):
    """Ways to spoil bytes: cut, flip, overwrite, insert, repeat, and noise."""
    places = sorted(rng.sample(range(len(data)), min(len(data), 40))) if data else []
    for place in places:
        yield data[:place]
        yield data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        length = rng.choice(LENGTHS)
        yield data[:place] + length + data[place + len(length) :]
        yield data[:place] + length + data[place:]
        yield data[:place] + data[place // 2 :]
    for size in (1, 3, 20, 200):
        yield rng.randbytes(size)
        yield rng.choice([b"\0", b"\1", b"\2", b"\xff"]) * size


def differences(json_value, value, kind, cls, version, where):
    """The differences between Kafka's JSON form and a kgm value, as texts; a member that the JSON lacks must have its
    default."""
    if json_value is None or value is None:
        return [] if json_value is value else [f"{where}: {json_value!r} is not {value!r}"]
    if kind.startswith("[]"):
        if len(json_value) != len(value):
            return [f"{where}: {len(json_value)} items are not {len(value)}"]
        pairs = enumerate(zip(json_value, value, strict=True))
        return [each for i, (a, b) in pairs for each in differences(a, b, kind[2:], cls, version, f"{where}[{i}]")]
    if kind == "records":
        return []  # Kafka's JSON form leaves record batches out
    if kind == "bytes":
        value = base64.b64encode(value).decode()
    elif kind == "uuid":
        value = uuid_text(value)
    elif kind in cls.STRUCTS or kind == cls.__name__:
        return struct_differences(json_value, value, cls, version, where)
    return (
        [] if json_value == value and type(json_value) is type(value) else [f"{where}: {json_value!r} is not {value!r}"]
    )


def struct_differences(json_value, value, cls, version, where=""):
    named = {name.lower(): name for name in json_value}
    default = value.__class__()
    found = []
    for row in (Field(*row) for row in value.FIELDS):
        mine = getattr(value, row.name)
        key = named.pop(row.name.replace("_", ""), None)
        if key is not None:
            found += differences(json_value[key], mine, row.kind, cls, version, f"{where}.{row.name}")
        elif mine != getattr(default, row.name):
            found.append(f"{where}.{row.name}: {mine!r} is not in Kafka's JSON")
    return found + [f"{where}.{name}: only in Kafka's JSON" for name in named.values()]
