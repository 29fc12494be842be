"""Kafka's config providers (KIP-297, KIP-421): values in a client.properties that come from the environment or from
files.

The three that Kafka ships are supported, by their class names. Other classes are refused, because Python cannot run
them. A key that a provider does not have is an error; Kafka would use the placeholder itself, as a password for
example."""

import os
import pathlib
import re
from collections.abc import Callable, Mapping

from kgm.model.client_settings import is_named
from kgm.model.errors import MissingFileError, UsageError
from kgm.operations.settings.properties import read_properties
from kgm.text.input_files import MOST_SETTINGS_BYTES, read_input

_PACKAGE = "org.apache.kafka.common.config.provider."
#: ConfigTransformer's own pattern: ${provider:key} or ${provider:path:key}.
_PLACEHOLDER = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_KEY = "config.providers"


def resolve_placeholders(properties: Mapping[str, str], path: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The properties with every placeholder replaced, without those that configure the providers.

    path: the file, for error messages. Raises UsageError or MissingFileError; neither shows a value."""
    names = [name.strip() for name in properties.get(_KEY, "").split(",") if name.strip()]
    if not names:
        return dict(properties)
    look_ups = {name: _provider(name, properties, environment) for name in names}

    def resolved(key: str, value: str) -> str:
        def replacement(match: re.Match[str]) -> str:
            look_up = look_ups.get(match[1])
            if look_up is None:
                return match[0]
            value = look_up(match[2] or "", match[3])
            if value is None:
                shown = key if is_named(key) else "a setting"
                raise MissingFileError(f"{shown} ({path}): {match[0]} does not exist")
            return value

        return _PLACEHOLDER.sub(replacement, value)

    return {key: resolved(key, value) for key, value in properties.items() if not key.startswith(_KEY)}


def _provider(
    name: str, properties: Mapping[str, str], environment: Mapping[str, str]
) -> Callable[[str, str], str | None]:
    """A function (path, key) -> value, or None if there is none."""
    kind = properties.get(f"{_KEY}.{name}.class", "").removeprefix(_PACKAGE)
    allowed = properties.get(f"{_KEY}.{name}.param.allowed.paths", "")
    if kind == "EnvVarConfigProvider":
        try:
            pattern = re.compile(properties.get(f"{_KEY}.{name}.param.allowlist.pattern", ".*"))
        except re.error:
            raise UsageError(f"{_KEY}.{name}.param.allowlist.pattern is not a valid regular expression") from None
        return lambda _, key: environment.get(key) if pattern.fullmatch(key) else None
    if kind == "FileConfigProvider":
        return lambda path, key: read_properties(_checked(name, path, allowed)).get(key)
    if kind == "DirectoryConfigProvider":
        return lambda path, key: _content(pathlib.Path(_checked(name, path, allowed)) / os.path.basename(key))  # noqa: PTH119
    raise UsageError(
        f"{_KEY}.{name}.class is not one of Kafka's own config providers",
        hint="kgm supports EnvVarConfigProvider, FileConfigProvider and DirectoryConfigProvider",
    )


def _checked(name: str, path: str, allowed: str) -> str:
    """The path, if it is in one of the allowed folders (all if none is named). Raises UsageError."""
    folders = [pathlib.Path(folder.strip()).resolve() for folder in allowed.split(",") if folder.strip()]
    if folders and not any(pathlib.Path(path).resolve().is_relative_to(folder) for folder in folders):
        raise UsageError(f"{_KEY}.{name}.param.allowed.paths does not allow {path}")
    return path


def _content(path: pathlib.Path) -> str | None:
    try:
        return read_input(str(path), MOST_SETTINGS_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
