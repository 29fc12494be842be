"""Turns a message class's table into straight-line Python: one decoder and one encoder per (class, version).

Interpreting the tables field by field would take five to ten times as long. The source compiled here consists of names
from the generated tables and of literals made with repr(); nothing from the network gets into it."""

import struct
from typing import Any, ClassVar

from kgm.protocol import primitives
from kgm.protocol.struct import Field, Message, Struct, within

_BYTES = ("bytes", "records")


class _Plan:
    """What the decoder and the encoder have in common, for one message at one version."""

    function: ClassVar[str]

    def __init__(self, cls: type[Message], version: int) -> None:
        self.cls, self.version = cls, version
        self.flexible = version >= cls.FLEXIBLE_FROM
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"Malformed": primitives.Malformed, "bad_length": primitives.bad_length}
        self.serial = 0

    def emit(self) -> None:
        raise NotImplementedError

    def build(self) -> Any:
        self.emit()
        exec("\n".join(self.lines), self.scope)  # noqa: S102  (source made here from generated tables)
        return self.scope[self.function]

    def name(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def struct(self, name: str) -> type[Struct]:
        return self.cls if name == self.cls.__name__ else self.cls.STRUCTS[name]

    def rows(self, name: str) -> list[Field]:
        return [Field(*row) for row in self.struct(name).FIELDS]

    def const(self, key: str, value: Any) -> str:
        self.scope[key] = value
        return key

    def fixed(self, letters: str) -> str:
        return self.const(f"S_{letters.replace('?', 'B_')}", struct.Struct(">" + letters))

    def is_tagged(self, row: Field) -> bool:
        return row.tag is not None and within(self.version, row.tagged)

    def present(self, row: Field) -> bool:
        return within(self.version, row.versions)

    def min_size(self, kind: str, seen: tuple[str, ...] = ()) -> int:
        """The smallest number of bytes that a value of this kind can take, which limits array counts."""
        if kind in primitives.WIDTH:
            return primitives.WIDTH[kind]
        if kind == "uuid":
            return 16
        if kind.startswith("[]"):
            return 1 if self.flexible else 4
        if kind == "string":
            return 1 if self.flexible else 2
        if kind in _BYTES:
            return 1 if self.flexible else 4
        if kind in seen:
            return 1
        rows = [row for row in self.rows(kind) if self.present(row) and not self.is_tagged(row)]
        size = sum(1 if self.nullable_struct(row) else self.min_size(row.kind, (*seen, kind)) for row in rows)
        return max(1, size + int(self.flexible))

    def nullable_struct(self, row: Field) -> bool:
        return self.is_struct(row.kind) and within(self.version, row.nullable)

    @staticmethod
    def is_struct(kind: str) -> bool:
        return not kind.startswith("[]") and kind not in primitives.FIXED and kind not in ("string", "uuid", *_BYTES)


class _Decoder(_Plan):
    """Emits `def decode(b, p, end) -> (message, position)`."""

    function = "decode"

    def emit(self) -> None:
        self.scope |= {"read_uvarint": primitives.read_uvarint, "read_tags": primitives.read_tags}
        self.line(0, "def decode(b, p, end):")
        target = self.fields(1, self.cls.__name__)
        self.line(1, f"return {target}, p")

    def fields(self, depth: int, struct_name: str) -> str:
        """Emit the decoding of one struct. Returns the variable that holds it."""
        cls = self.struct(struct_name)
        arguments = []
        tagged = []
        run: list[tuple[str, Field]] = []
        for row in self.rows(struct_name):
            variable = self.name("v")
            arguments.append(variable)
            if not self.present(row) or self.is_tagged(row):
                self.flush(depth, run)
                self.line(depth, f"{variable} = {self.default(row)}")
                if self.is_tagged(row):
                    tagged.append((variable, row))
            elif row.kind in primitives.FIXED:
                run.append((variable, row))
            else:
                self.flush(depth, run)
                where = f"{struct_name}.{row.name}"
                self.value(depth, variable, row.kind, where, within(self.version, row.nullable))
        self.flush(depth, run)
        result = self.name("s")
        unknown = self.tags(depth, tagged) if self.flexible else None
        cls_name = self.const(f"C_{struct_name}", cls)
        self.line(depth, f"{result} = {cls_name}({', '.join(arguments)})")
        if unknown:
            self.line(depth, f"if {unknown}: {result}.unknown_tags = tuple({unknown})")
        return result

    def flush(self, depth: int, run: list[tuple[str, Field]]) -> None:
        """Emit the decoding of adjacent fixed-width fields, which are unpacked together."""
        if run:
            letters = "".join(primitives.FIXED[row.kind] for _, row in run)
            targets = ", ".join(variable for variable, _ in run)
            self.line(depth, f"{targets}, = {self.fixed(letters)}.unpack_from(b, p)")
            self.line(depth, f"p += {sum(primitives.WIDTH[row.kind] for _, row in run)}")
            run.clear()

    def default(self, row: Field) -> str:
        if row.default == () and row.kind.startswith("[]"):
            return "[]"
        if row.default == ():
            return f"{self.const(f'C_{row.kind}', self.struct(row.kind))}()"
        return repr(row.default)

    def length(self, depth: int, wide: str) -> str:
        """Emit the decoding of the length of a string (h), or of bytes or an array (i); -1 means null."""
        n = self.name("n")
        if self.flexible:
            self.line(depth, f"{n} = b[p]")
            self.line(depth, f"if {n} < 128: p += 1")
            self.line(depth, f"elif b[p + 1] < 128: {n} += (b[p + 1] << 7) - 128; p += 2")
            self.line(depth, f"else: {n}, p = read_uvarint(b, p)")
            self.line(depth, f"{n} -= 1")
        else:
            self.line(depth, f"{n} = {self.fixed(wide)}.unpack_from(b, p)[0]; p += {2 if wide == 'h' else 4}")
        return n

    def null_check(self, depth: int, n: str, where: str, nullable: bool) -> None:  # noqa: FBT001
        self.line(depth, f"if {n} < 0:")
        if nullable:
            self.line(depth + 1, f"if {n} != -1: raise bad_length({where!r}, {n}, p, end)")
        else:
            self.line(depth + 1, f"raise bad_length({where!r}, {n}, p, end)")

    def value(self, depth: int, variable: str, kind: str, where: str, nullable: bool) -> None:  # noqa: FBT001
        if kind in primitives.FIXED:
            self.line(depth, f"{variable} = {self.fixed(primitives.FIXED[kind])}.unpack_from(b, p)[0]")
            self.line(depth, f"p += {primitives.WIDTH[kind]}")
        elif kind == "uuid":
            self.line(depth, f"if end - p < 16: raise bad_length({where!r}, 16, p, end)")
            self.line(depth, f"{variable} = b[p:p + 16]; p += 16")
        elif kind == "string" or kind in _BYTES:
            n = self.length(depth, "h" if kind == "string" else "i")
            self.null_check(depth, n, where, nullable)
            if nullable:
                self.line(depth + 1, f"{variable} = None")
                self.line(depth, "else:")
                depth += 1
            self.line(depth, f"q = p + {n}")
            self.line(depth, f"if q > end: raise bad_length({where!r}, {n}, p, end)")
            self.line(depth, f"{variable} = {'b[p:q].decode()' if kind == 'string' else 'b[p:q]'}; p = q")
        elif kind.startswith("[]"):
            self.array(depth, variable, kind[2:], where, nullable)
        elif nullable:
            self.line(depth, "if b[p] != 1:")
            self.line(depth + 1, f"if b[p] != 255: raise Malformed({where!r} + ' is neither null nor present')")
            self.line(depth + 1, f"{variable} = None; p += 1")
            self.line(depth, "else:")
            self.line(depth + 1, "p += 1")
            self.line(depth + 1, f"{variable} = {self.fields(depth + 1, kind)}")
        else:
            self.line(depth, f"{variable} = {self.fields(depth, kind)}")

    def array(self, depth: int, variable: str, kind: str, where: str, nullable: bool) -> None:  # noqa: FBT001
        n = self.length(depth, "i")
        self.null_check(depth, n, where, nullable)
        if nullable:
            self.line(depth + 1, f"{variable} = None")
            self.line(depth, "else:")
            depth += 1
        size = self.min_size(kind)
        self.line(depth, f"if {n} * {size} > end - p: raise bad_length({where!r}, {n}, p, end)")
        if kind in primitives.FIXED:
            letter = primitives.FIXED[kind]
            self.scope["unpack_from"] = struct.unpack_from
            self.line(depth, f"{variable} = list(unpack_from(f'>{{{n}}}{letter}', b, p)); p += {n} * {size}")
            return
        self.line(depth, f"{variable} = []")
        append = self.name("a")
        self.line(depth, f"{append} = {variable}.append")
        self.line(depth, f"for _ in range({n}):")
        item = self.name("v")
        self.value(depth + 1, item, kind, where, False)  # noqa: FBT003  (elements are never null in Kafka)
        self.line(depth + 1, f"{append}({item})")

    def tags(self, depth: int, tagged: list[tuple[str, Field]]) -> str:
        unknown = self.name("u")
        self.line(depth, f"{unknown} = None")
        self.line(depth, "if b[p] == 0: p += 1")
        self.line(depth, "else:")
        found, stop = self.name("f"), self.name("q")
        self.line(depth + 1, f"{found}, {stop} = read_tags(b, p, end)")
        self.line(depth + 1, f"{unknown} = []")
        tag, start, limit = self.name("t"), self.name("x"), self.name("y")
        self.line(depth + 1, f"for {tag}, {start}, {limit} in {found}:")
        outer = self.name("e")
        self.line(depth + 2, "if False: pass")
        for variable, row in tagged:
            self.line(depth + 2, f"elif {tag} == {row.tag}:")
            self.line(depth + 3, f"p = {start}; {outer} = end; end = {limit}")
            nullable = within(self.version, row.nullable)
            self.tagged_value(depth + 3, variable, row, nullable)
            self.line(depth + 3, f"if p != end: raise Malformed({row.name!r} + ' does not fill its tag')")
            self.line(depth + 3, f"end = {outer}")
        self.line(depth + 2, f"else: {unknown}.append(({tag}, b[{start}:{limit}]))")
        self.line(depth + 1, f"p = {stop}")
        return unknown

    def tagged_value(self, depth: int, variable: str, row: Field, nullable: bool) -> None:  # noqa: FBT001
        if self.is_struct(row.kind) and nullable:
            # Inside a tag, a null struct is the byte 0, not -1 (Kafka's generator writes it as a varint).
            self.line(depth, "if b[p] == 0: " + f"{variable} = None; p += 1")
            self.line(depth, f"elif b[p] != 1: raise Malformed({row.name!r} + ' is neither null nor present')")
            self.line(depth, "else:")
            self.line(depth + 1, "p += 1")
            self.line(depth + 1, f"{variable} = {self.fields(depth + 1, row.kind)}")
        else:
            self.value(depth, variable, row.kind, row.name, nullable)


class _Encoder(_Plan):
    """Emits `def encode(o, w) -> None`, where `w` appends bytes to the caller's list."""

    function = "encode"

    def emit(self) -> None:
        self.scope |= {"uvarint": primitives.uvarint, "write_tags": primitives.write_tags}
        self.scope |= {"SMALL": primitives.SMALL_UVARINTS, "pack": struct.pack}
        self.line(0, "def encode(o, w):")
        self.fields(1, "o", self.cls.__name__, "w")

    def fields(self, depth: int, o: str, struct_name: str, w: str) -> None:
        run: list[Field] = []
        rows = self.rows(struct_name)
        for row in rows:
            if not self.present(row):
                if not row.ignorable:
                    self.reject_set(depth, o, row, struct_name)
            elif self.is_tagged(row):
                continue
            elif row.kind in primitives.FIXED:
                run.append(row)
            else:
                self.flush(depth, o, run, w)
                self.value(depth, f"{o}.{row.name}", row.kind, w, within(self.version, row.nullable))
        self.flush(depth, o, run, w)
        if self.flexible:
            self.tags(depth, o, [row for row in rows if self.present(row) and self.is_tagged(row)], w)
        else:
            self.line(depth, f"if {o}.unknown_tags: raise ValueError('tags need a flexible version')")

    def reject_set(self, depth: int, o: str, row: Field, struct_name: str) -> None:
        """Emit an error for a value that this version cannot carry. Not called for fields marked as ignorable, as in
        Kafka."""
        text = f"{struct_name}.{row.name} cannot be sent at version {self.version}"
        self.line(depth, f"if {self.differs(o, row)}: raise ValueError({text!r})")

    def differs(self, o: str, row: Field) -> str:
        """The source of an expression that tests whether the value differs from Kafka's default."""
        value = f"{o}.{row.name}"
        if row.default == () and row.kind.startswith("[]"):
            return f"{value} is None or {value}"
        if row.default == ():
            return f"{value} is None or {value} != {self.const(f'D_{row.kind}', self.struct(row.kind)())}"
        if row.default is None:
            return f"{value} is not None"
        return f"{value} != {row.default!r}"

    def flush(self, depth: int, o: str, run: list[Field], w: str) -> None:
        if run:
            letters = "".join(primitives.FIXED[row.kind] for row in run)
            values = ", ".join(f"{o}.{row.name}" for row in run)
            self.line(depth, f"{w}({self.fixed(letters)}.pack({values}))")
            run.clear()

    def length(self, depth: int, n: str, w: str, wide: str) -> None:
        if self.flexible:
            self.line(depth, f"{w}(SMALL[{n} + 1] if {n} < 1023 else uvarint({n} + 1))")
        else:
            self.line(depth, f"{w}({self.fixed(wide)}.pack({n}))")

    def null(self, depth: int, value: str, w: str, wide: str) -> None:
        null = b"\0" if self.flexible else b"\xff" * (2 if wide == "h" else 4)
        self.line(depth, f"if {value} is None: {w}({null!r})")
        self.line(depth, "else:")

    def value(self, depth: int, value: str, kind: str, w: str, nullable: bool) -> None:  # noqa: FBT001
        if kind in primitives.FIXED:
            self.line(depth, f"{w}({self.fixed(primitives.FIXED[kind])}.pack({value}))")
        elif kind == "uuid":
            self.line(depth, f"if len({value}) != 16: raise ValueError('a uuid has 16 bytes')")
            self.line(depth, f"{w}({value})")
        elif kind == "string" or kind in _BYTES:
            wide = "h" if kind == "string" else "i"
            if nullable:
                self.null(depth, value, w, wide)
                depth += 1
            data, n = self.name("d"), self.name("n")
            self.line(depth, f"{data} = {value}{'.encode()' if kind == 'string' else ''}; {n} = len({data})")
            if kind == "string":
                self.line(depth, f"if {n} > 32767: raise ValueError('a string of ' + str({n}) + ' bytes is too long')")
            self.length(depth, n, w, wide)
            self.line(depth, f"{w}({data})")
        elif kind.startswith("[]"):
            self.array(depth, value, kind[2:], w, nullable)
        else:
            inner = self.name("o")
            self.line(depth, f"{inner} = {value}")
            if nullable:
                self.line(depth, f"if {inner} is None: {w}(b'\\xff')")
                self.line(depth, "else:")
                self.line(depth + 1, f"{w}(b'\\x01')")
                depth += 1
            self.fields(depth, inner, kind, w)

    def array(self, depth: int, value: str, kind: str, w: str, nullable: bool) -> None:  # noqa: FBT001
        if nullable:
            self.null(depth, value, w, "i")
            depth += 1
        n = self.name("n")
        self.line(depth, f"{n} = len({value})")
        self.length(depth, n, w, "i")
        if kind in primitives.FIXED:
            self.line(depth, f"{w}(pack(f'>{{{n}}}{primitives.FIXED[kind]}', *{value}))")
            return
        item = self.name("i")
        self.line(depth, f"for {item} in {value}:")
        self.value(depth + 1, item, kind, w, False)  # noqa: FBT003  (elements are never null in Kafka)

    def tags(self, depth: int, o: str, tagged: list[Field], w: str) -> None:
        if not tagged:
            self.line(depth, f"{w}(write_tags([], {o}.unknown_tags) if {o}.unknown_tags else b'\\0')")
            return
        known = self.name("k")
        self.line(depth, f"{known} = []")
        for row in tagged:
            parts, inner = self.name("l"), self.name("w")
            self.line(depth, f"if {self.differs(o, row)}:")
            self.line(depth + 1, f"{parts} = []; {inner} = {parts}.append")
            self.tagged_value(depth + 1, f"{o}.{row.name}", row, inner)
            self.line(depth + 1, f"{known}.append(({row.tag}, b''.join({parts})))")
        self.line(depth, f"{w}(write_tags({known}, {o}.unknown_tags))")

    def tagged_value(self, depth: int, value: str, row: Field, w: str) -> None:
        nullable = within(self.version, row.nullable)
        if self.is_struct(row.kind) and nullable:
            self.line(depth, f"if {value} is None: {w}(b'\\0')")
            self.line(depth, "else:")
            inner = self.name("o")
            self.line(depth + 1, f"{w}(b'\\x01'); {inner} = {value}")
            self.fields(depth + 1, inner, row.kind, w)
        else:
            self.value(depth, value, row.kind, w, nullable)


def compile_decoder(cls: type[Message], version: int) -> Any:
    """A function (bytes, position, end) -> (message, next position)."""
    return _Decoder(cls, version).build()


def compile_encoder(cls: type[Message], version: int) -> Any:
    """A function (message, append) that calls `append` with byte strings."""
    return _Encoder(cls, version).build()
