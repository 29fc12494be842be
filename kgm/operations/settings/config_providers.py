"""Kafka's config providers (KIP-297, KIP-421): values of a client.properties that stand in the environment or in files.

The three that Kafka ships, by their classes; a class of somebody's own cannot be run here, and is refused. A name that
a provider does not have is an error, where Kafka would send the placeholder for a password."""

import os
import pathlib
import re
from collections.abc import Callable, Mapping

from kgm.cli.options.properties import read_properties
from kgm.model.errors import NotFoundError, UsageError

_PACKAGE = "org.apache.kafka.common.config.provider."
#: ConfigTransformer's own pattern: ${provider:key} or ${provider:path:key}.
_PLACEHOLDER = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_KEY = "config.providers"


def resolved(found: Mapping[str, str], where: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The settings with every placeholder replaced, and without those that name the providers.

    where: the file, for errors. Raises UsageError or NotFoundError; neither shows a value."""
    names = [name.strip() for name in found.get(_KEY, "").split(",") if name.strip()]
    if not names:
        return dict(found)
    look_ups = {name: _provider(name, found, environment) for name in names}

    def replaced(key: str, value: str) -> str:
        def one(match: re.Match[str]) -> str:
            look_up = look_ups.get(match[1])
            if look_up is None:
                return match[0]
            value = look_up(match[2] or "", match[3])
            if value is None:
                raise NotFoundError(f"{key} ({where}): {match[0]} is not there")
            return value

        return _PLACEHOLDER.sub(one, value)

    return {key: replaced(key, value) for key, value in found.items() if not key.startswith(_KEY)}


def _provider(name: str, found: Mapping[str, str], environment: Mapping[str, str]) -> Callable[[str, str], str | None]:
    """(path, key) -> value."""
    kind = found.get(f"{_KEY}.{name}.class", "").removeprefix(_PACKAGE)
    allowed = found.get(f"{_KEY}.{name}.param.allowed.paths", "")
    if kind == "EnvVarConfigProvider":
        try:
            pattern = re.compile(found.get(f"{_KEY}.{name}.param.allowlist.pattern", ".*"))
        except re.error:
            raise UsageError(f"{_KEY}.{name}.param.allowlist.pattern is no regular expression") from None
        return lambda _, key: environment.get(key) if pattern.fullmatch(key) else None
    if kind == "FileConfigProvider":
        return lambda path, key: read_properties(_checked(name, path, allowed)).get(key)
    if kind == "DirectoryConfigProvider":
        return lambda path, key: _content(pathlib.Path(_checked(name, path, allowed)) / os.path.basename(key))  # noqa: PTH119
    raise UsageError(
        f"{_KEY}.{name}.class is no config provider of Kafka's own",
        hint="kgm does what EnvVarConfigProvider, FileConfigProvider and DirectoryConfigProvider do",
    )


def _checked(name: str, path: str, allowed: str) -> str:
    """The path, if it lies in one of the folders that are allowed (all, when none is named)."""
    folders = [pathlib.Path(folder.strip()).resolve() for folder in allowed.split(",") if folder.strip()]
    if folders and not any(pathlib.Path(path).resolve().is_relative_to(folder) for folder in folders):
        raise UsageError(f"{_KEY}.{name}.param.allowed.paths does not allow {path}")
    return path


def _content(path: pathlib.Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
