"""The JSON Schemas that `-o schema` prints, made from `contracts`, which are short enough to read.

Version 1 only grows: tests/cli/output/test_schemas.py compares it with every schema published before."""

from __future__ import annotations

import json
from typing import Any

from kgm.cli.output.report import ERROR

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def print_schema(command_path: str) -> None:
    """Print the schema of a command, such as `kgm config view`. Raises NotFoundError if it has no JSON."""
    from kgm.cli.output.streams import write_stdout
    from kgm.model.errors import NotFoundError

    name = "-".join(command_path.split()[1:])
    schema = schema_of(name)
    if schema is None:
        raise NotFoundError(f"kgm {name}: this command has no JSON schema")
    write_stdout(json.dumps(schema, indent=2) + "\n")


def contracts() -> dict[str, Any]:
    """{name: form of `data`} of every command."""
    from kgm.cli.output.contracts import index
    from kgm.cli.output.history import forms

    return {**index.FORMS, **forms.CONTRACTS}


def schema_of(name: str) -> dict[str, Any] | None:
    """The schema, or None if there is no such contract. name: as in `kgm.NAME/v1`."""
    data = contracts().get(name)
    if data is None:
        return None
    envelope = {
        "schema": f"=kgm.{name}/v1",
        "cluster": ({"id": "str?", "bootstrap": "str?"}, None),
        "generated_at": "str",
        "data": {},
        "errors": [ERROR],
        "warnings": ["str"],
    }
    schema = translated(envelope)
    # A command that failed entirely has `errors` and no data.
    schema["properties"]["data"] = {"anyOf": [translated(data), {"type": "object", "maxProperties": 0}]}
    return {"$schema": _DIALECT, "$id": f"kgm.{name}/v1", "title": f"kgm {name} -o json", **schema}


def translated(form: Any) -> dict[str, Any]:
    """A form as JSON Schema."""
    if isinstance(form, str):
        return _word(form)
    if isinstance(form, list):
        return {"type": "array", "items": translated(form[0])}
    if isinstance(form, tuple):
        return {"anyOf": [{"type": "null"} if each is None else translated(each) for each in form]}
    if "*" in form:
        return {"type": "object", "additionalProperties": translated(form["*"])}
    return {
        "type": "object",
        "properties": {key.removesuffix("?"): translated(value) for key, value in form.items()},
        "required": [key for key in form if not key.endswith("?")],
    }


def _word(word: str) -> dict[str, Any]:
    if word == "any":
        return {}
    is_nullable = word.endswith("?")
    word = word.removesuffix("?")
    if word.startswith("="):
        words: list[str | None] = [*word[1:].split("|")]
        return {"enum": [*words, None]} if is_nullable else {"enum": words}
    kind = _TYPES[word]
    return {"type": [kind, "null"] if is_nullable else kind}
