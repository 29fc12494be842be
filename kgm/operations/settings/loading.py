"""Where a command's settings come from: -X, the environment, --command-config, a profile; the first that has one wins.

A profile is a table of `$XDG_CONFIG_HOME/kgm/config.toml`, with Kafka's dotted names or kgm's own options:

    default_profile = "prod"

    [profiles.prod]
    bootstrap_server = "kafka-1:9093,kafka-2:9093"
    expect_cluster_id = "4L6g3nShT-eMCtK--X86sw"
    command_config = "prod.properties"     # beside this file
    security.protocol = "SASL_SSL"

A secret comes from a file or the environment, never from the command line, where every process can read it. `Settings`
does not show values in its `repr`."""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgm.model.errors import NotFoundError, UsageError

#: Options that a profile may set, beside the settings of a Kafka client.
PROFILE_OPTIONS = (
    "bootstrap_server",
    "command_config",
    "expect_cluster_id",
    "timeout",
    "output",
    "color",
    "no_headers",
)
_BOOTSTRAP = "bootstrap.servers"
HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting and where it came from."""

    key: str
    value: str = field(repr=False)
    origin: str


class Settings(Mapping[str, str]):
    """The settings of a Kafka client that hold, by key, with their origins."""

    def __init__(self, found: Mapping[str, Setting]) -> None:
        self._found = dict(found)

    def __getitem__(self, key: str) -> str:
        return self._found[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Settings({sorted(self._found)})"

    def origin(self, key: str) -> str:
        return self._found[key].origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Everything that was found. options: what the profile says of kgm's own options."""

    settings: Settings
    options: Mapping[str, Setting]
    profile: str | None
    warnings: tuple[str, ...]


def gather(
    *, extra: Sequence[str] = (), command_config: str | None = None, profile: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Gathered:  # fmt: skip
    """Read every source. Raises UsageError or NotFoundError; no error shows a value."""
    environment = os.environ if environment is None else environment
    warnings: list[str] = []
    chosen, table, file = _profile(profile, environment)
    origin = f"profile {chosen} ({file})"
    options = {key: Setting(key=key, value=table.pop(key), origin=origin) for key in PROFILE_OPTIONS if key in table}
    layers = [{key: Setting(key=key, value=value, origin=origin) for key, value in table.items()}]
    _check_mode(file, table, warnings)
    where = command_config
    if where is None and "command_config" in options:
        where = str(file.parent / pathlib.Path(options["command_config"].value).expanduser())
    if where is not None:
        from kgm.cli.options.properties import read_properties

        found = read_properties(where)
        _check_mode(pathlib.Path(where), found, warnings)
        if "config.providers" in found:
            from kgm.cli.options.providers import resolved

            found = resolved(found, where, environment)
        layers.append({key: Setting(key=key, value=value, origin=where) for key, value in found.items()})
    layers.append(_from_environment(environment))
    layers.append(_from_command_line(extra))
    merged: dict[str, Setting] = {}
    for layer in layers:
        for key, setting in layer.items():
            merged[_BOOTSTRAP if key == "metadata.broker.list" else key] = setting
    if merged:
        warnings += _odd(merged)
        _check_key_files(merged, warnings)
    return Gathered(settings=Settings(merged), options=options, profile=chosen, warnings=tuple(warnings))


def bootstrap_of(flag: str | None, found: Gathered) -> tuple[str | None, str]:
    """(bootstrap servers, origin): flag, then -X, environment, command-config, profile, where the option's name comes
    before Kafka's."""
    if flag:
        return flag, "flag"
    setting, option = found.settings.get(_BOOTSTRAP), found.options.get("bootstrap_server")
    if setting and not (option is not None and found.settings.origin(_BOOTSTRAP) == option.origin):
        return setting, found.settings.origin(_BOOTSTRAP)
    return (option.value, option.origin) if option is not None else (None, "default")


# -- profiles ----------------------------------------------------------------------------------------------------------


def config_file(environment: Mapping[str, str]) -> pathlib.Path:
    """`$XDG_CONFIG_HOME/kgm/config.toml`."""
    home = environment.get("XDG_CONFIG_HOME")
    return (pathlib.Path(home) if home else pathlib.Path.home() / ".config") / "kgm" / "config.toml"


def _profile(name: str | None, environment: Mapping[str, str]) -> tuple[str | None, dict[str, str], pathlib.Path]:
    """(the profile's name, its settings with dotted keys, the file)."""
    file = config_file(environment)
    if not file.exists():
        if name is not None:
            raise NotFoundError(f"--profile {name}: {file} is not there", hint="see `kgm config view --help`")
        return None, {}, file
    document = _read_toml(file)
    profiles = document.get("profiles", {})
    chosen = name or document.get("default_profile")
    if chosen is None:
        return None, {}, file
    if not isinstance(profiles, dict) or not isinstance(profiles.get(chosen), dict):
        names = ", ".join(sorted(profiles)) if isinstance(profiles, dict) and profiles else "none"
        raise NotFoundError(f"--profile {chosen}: {file} has no [profiles.{chosen}]", facts=(f"it has: {names}",))
    flat = {key.replace("-", "_") if "." not in key else key: value for key, value in _flat(profiles[chosen])}
    return chosen, flat, file


def _read_toml(file: pathlib.Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {type(error).__name__}") from None
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].rstrip(")")
        raise UsageError(f"{file} is not TOML: something is wrong {place}") from None


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield f"{prefix}{key}", str(value).lower()
        elif isinstance(value, list):
            yield f"{prefix}{key}", ",".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)


# -- environment and command line --------------------------------------------------------------------------------------


def _from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """`KGM_SASL_PASSWORD` is sasl.password. KGM_BOOTSTRAP_SERVER is the option's name, and the one in the help."""
    ours = {name for name in environment if name.startswith("KGM_")}
    found: dict[str, Setting] = {}
    if ours:
        from kgm.model.client_settings import USED, environment_name

        names = {environment_name(key): key for key in USED}
        names["KGM_BOOTSTRAP_SERVER"] = _BOOTSTRAP
        for name, key in names.items():
            if environment.get(name):
                found[key] = Setting(key=key, value=environment[name], origin=f"environment ({name})")
    return found


def _from_command_line(extra: Sequence[str]) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for item in extra:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise UsageError("-X: write KEY=VALUE", hint="for example: -X security.protocol=SSL")
        from kgm.model.client_settings import environment_name, is_known, is_secret, nearest

        meant = key if is_known(key) else nearest(key) or key  # sasl.pasword is a secret too
        if is_secret(key) or is_secret(meant):
            raise UsageError(
                f"-X {key}: a secret on the command line can be read by every process of this machine",
                hint=f"write it into a file (mode 600) for --command-config, or export {environment_name(meant)}",
            )
        found[key] = Setting(key=key, value=value, origin="-X")
    return found


# -- what to warn about ------------------------------------------------------------------------------------------------


def _odd(merged: Mapping[str, Setting]) -> list[str]:
    from kgm.model.client_settings import NOT_DONE, is_known, nearest

    warnings = []
    for key, setting in merged.items():
        if key in NOT_DONE:
            warnings.append(f"{key} ({setting.origin}): kgm does not do this; the setting is ignored")
        elif not is_known(key):
            meant = nearest(key, PROFILE_OPTIONS if setting.origin.startswith("profile ") else ())
            more = f"; is {meant} meant?" if meant else ""
            warnings.append(f"{key} ({setting.origin}): no such setting of a Kafka client or of kgm{more}")
    return warnings


def _check_mode(path: pathlib.Path, found: Mapping[str, str], warnings: list[str]) -> None:
    if not found:
        return
    from kgm.model.client_settings import is_secret

    # A placeholder of a config provider is no secret.
    if any(value and not value.startswith("${") and is_secret(key) for key, value in found.items()):
        _warn_if_open(path, warnings)


def _check_key_files(merged: Mapping[str, Setting], warnings: list[str]) -> None:
    for key in ("ssl.keystore.location", "ssl.key.location"):
        if key in merged and merged[key].value:
            _warn_if_open(pathlib.Path(merged[key].value).expanduser(), warnings)


def _warn_if_open(path: pathlib.Path, warnings: list[str]) -> None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # whoever reads it says so
    if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        warnings.append(f"{path} holds secrets, and others may read it: chmod 600 {path}")


# -- what may be shown -------------------------------------------------------------------------------------------------


def is_hidden(key: str) -> bool:
    """Whether the value is a secret, or may be one: nobody knows what `sasl.pasword` holds."""
    from kgm.model.client_settings import is_known, is_secret

    return is_secret(key) or not is_known(key)


def shown(setting: Setting) -> str:
    """The value for people; `(hidden)` for what may be a secret. Of a login module, what is none shows."""
    if setting.key == "sasl.jaas.config":
        return _shown_jaas(setting.value)
    if is_hidden(setting.key):
        return HIDDEN if setting.value else ""
    if "-----BEGIN" in setting.value:
        return f"(PEM, {setting.value.count('-----BEGIN')} blocks)"
    if setting.key.endswith(".command"):  # its arguments are nobody's business
        program, blank, _ = setting.value.strip().partition(" ")
        return f"{program} ..." if blank else program
    return _shown_address(setting.value)


def _shown_address(text: str) -> str:
    """Without the user of an address, nor what is asked of it: both are places where people put secrets."""
    scheme, slashes, rest = text.partition("://")
    if not slashes:
        return text
    if "@" in rest.partition("/")[0]:
        rest = f"{HIDDEN}@{rest.partition('@')[2]}"
    address, mark, _ = rest.partition("?")
    return f"{scheme}://{address}?{HIDDEN}" if mark else f"{scheme}://{rest}"


def _shown_jaas(text: str) -> str:
    from kgm.client.security.jaas import parse_jaas

    open_options = ("username", "clientId", "scope", "serviceName", "tokenauth")
    try:
        found = parse_jaas(text)
    except UsageError:
        return HIDDEN
    options = (f'{key}="{value}"' if key in open_options else f"{key}={HIDDEN}" for key, value in found.options.items())
    return " ".join([found.short_name, "required", *options]) + ";"
