"""Profiles: tables of `$XDG_CONFIG_HOME/kgm/config.toml`, with Kafka's dotted names or kgm's own options.

default_profile = "prod"

[profiles.prod]
bootstrap_server = "kafka-1:9093,kafka-2:9093"
expect_cluster_id = "4L6g3nShT-eMCtK--X86sw"
command_config = "prod.properties"     # relative to this file
security.protocol = "SASL_SSL"
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgm.model.client_settings import USED
from kgm.model.errors import MissingFileError, UsageError
from kgm.text.input_files import MOST_SETTINGS_BYTES, read_input
from kgm.text.names import closest

#: No setting's name has this many dots.
_DEEPEST = 30
_TOP_LEVEL = ("default_profile", "profiles", "ignore")
#: Options that a profile may set in addition to the settings of a Kafka client.
PROFILE_OPTIONS = (
    "bootstrap_server",
    "command_config",
    "expect_cluster_id",
    "timeout",
    "output",
    "color",
    "no_headers",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile. options: kgm's own options, by name; settings: those of a Kafka client, by dotted key. `repr` shows
    no value."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)


def read_profile(name: str | None, file: pathlib.Path) -> Profile | None:
    """The profile with this name, or the default one; None if no name is given and there is no default.

    Raises MissingFileError for a name or a file that does not exist, UsageError for a file that cannot be read."""
    if not file.exists():
        raise MissingFileError(f"profile {name}: file {file} does not exist", hint="kgm config view --help")
    document = _document(file)
    profiles = document.get("profiles", {})
    chosen = name or document.get("default_profile")
    if chosen is None:
        return None
    if not isinstance(chosen, str):
        raise UsageError(f"{file}: default_profile is not the name of a profile", hint='write default_profile = "NAME"')
    if not isinstance(profiles, dict) or not isinstance(profiles.get(chosen), dict):
        names = ", ".join(sorted(profiles)) if isinstance(profiles, dict) and profiles else "none"
        raise MissingFileError(f"profile {chosen}: {file} has no [profiles.{chosen}]", facts=(f"profiles: {names}",))
    # kgm.operations.settings.ignored_checks reads what the doctor ignores.
    table = {key: value for key, value in profiles[chosen].items() if key != "ignore"}
    values = {key.replace("-", "_") if "." not in key else key: value for key, value in _flat(table)}
    for key in values:
        if "." not in key and key not in PROFILE_OPTIONS:  # the settings of Kafka and of plug-ins have dots
            raise _unknown_key(f"profile {chosen} ({file})", key, PROFILE_OPTIONS)
    return Profile(
        name=chosen,
        options={key: value for key, value in values.items() if key in PROFILE_OPTIONS},
        settings={key: value for key, value in values.items() if key not in PROFILE_OPTIONS},
    )


def profile_names(file: pathlib.Path) -> tuple[list[str], str | None]:
    """(names of all profiles, name of the default one). Raises UsageError for a file that cannot be read."""
    if not file.exists():
        return [], None
    document = _document(file)
    profiles, default = document.get("profiles", {}), document.get("default_profile")
    return list(profiles) if isinstance(profiles, dict) else [], default if isinstance(default, str) else None


def _document(file: pathlib.Path) -> dict[str, Any]:
    document = read_toml(file)
    for key in document:
        if key not in _TOP_LEVEL:
            raise _unknown_key(str(file), key, _TOP_LEVEL)
    return document


def _unknown_key(where: str, key: str, known: Sequence[str]) -> UsageError:
    """The error for an unknown key. A warning would not do: a misspelled guard does not guard."""
    meant = closest(key.replace("-", "_"), known) or closest(key.replace("_", "."), USED, cutoff=0.8)
    hint = f"did you mean {meant}?" if meant else f"known: {', '.join(known)}, and Kafka's dotted settings"
    return UsageError(f"{where}: there is no setting {key}", hint=hint)


def read_toml(file: pathlib.Path) -> dict[str, Any]:
    """The tables of a file. Raises UsageError, which shows no value."""
    import tomllib

    try:
        return tomllib.loads(read_input(str(file), MOST_SETTINGS_BYTES).decode("utf-8").replace("\r\n", "\n"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} cannot be read: it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].rstrip(")")  # the rest of the message may show a value
        raise UsageError(f"{file} is not valid TOML: error {place}") from None
    except (ValueError, RecursionError):  # a number with thousands of digits, deeply nested tables
        raise UsageError(f"{file} is not valid TOML: a number is too long, or it is nested too deeply") from None


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    if prefix.count(".") > _DEEPEST:
        raise UsageError(f"a profile has more than {_DEEPEST} nested tables")
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield f"{prefix}{key}", str(value).lower()
        elif isinstance(value, list):
            yield f"{prefix}{key}", ",".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)
