"""The effective settings of a Kafka client, from: overrides, the environment, a client.properties, a profile. The first
of these that has a setting wins.

Secrets come from files or the environment. `ClientSettings` does not show values in its `repr`, and no error does."""

from __future__ import annotations

import os
import pathlib
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kgm.model.client_settings import (
    MSK_HANDLERS,
    NOT_DONE,
    TOKEN_COMMAND,
    USED,
    environment_name,
    is_known,
    is_named,
    is_secret,
)
from kgm.operations.settings.profiles import PROFILE_OPTIONS, Profile, read_profile
from kgm.text.input_files import refuse_foreign
from kgm.text.names import closest

_BOOTSTRAP = "bootstrap.servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting and where it came from. lines: its line numbers in a properties file; None for other sources."""

    key: str
    value: str
    origin: str
    lines: range | None = None

    @property
    def name(self) -> str:
        """The key as it may be shown. In a file with broken lines, a key can be part of a secret, so a key that is not
        the name of a setting is identified by its line."""
        return self.key if self.lines is None or is_named(self.key) else f"line {self.lines[0]}"

    def __repr__(self) -> str:
        return f"Setting(name={self.name!r}, origin={self.origin!r})"  # the value may be a secret


class ClientSettings(Mapping[str, str]):
    """The settings of a Kafka client by key, with their origins."""

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings = dict(settings)

    def __getitem__(self, key: str) -> str:
        return self._settings[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        return f"ClientSettings({sorted(one.name for one in self._settings.values())})"

    def origin(self, key: str) -> str:
        return self._settings[key].origin

    def setting(self, key: str) -> Setting:
        return self._settings[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """What the sources contain. profile: its name; profile_options: kgm's own options in it, by name.

    in_files: the bootstrap servers from the client.properties and the profile, regardless of the environment."""

    client: ClientSettings
    profile_options: Mapping[str, Setting]
    profile: str | None
    warnings: tuple[str, ...]
    in_files: Setting | None = None

    def bootstrap(self) -> Setting | None:
        """The effective bootstrap servers."""
        return _bootstrap_of(self.client, self.profile_options)


def _bootstrap_of(settings: ClientSettings, profile_options: Mapping[str, Setting]) -> Setting | None:
    """The bootstrap servers. Within a profile, the option's name wins over Kafka's."""
    servers, option = settings.get(_BOOTSTRAP), profile_options.get("bootstrap_server")
    if servers and (option is None or settings.origin(_BOOTSTRAP) != option.origin):
        return settings.setting(_BOOTSTRAP)
    return option


def load_settings(
    *, overrides: Iterable[Setting] = (), properties_file: str | None = None, profile: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedSettings:  # fmt: skip
    """Read all sources. profile: its name; None means the default profile, if there is one.

    Raises UsageError or NotFoundError; neither shows a value."""
    environment = os.environ if environment is None else environment
    warnings: list[str] = []
    file = config_file(environment)
    chosen, options, layers = None, {}, []
    if profile is not None or file.exists():
        chosen = read_profile(profile, file)
    if chosen is not None:
        origin = f"profile {chosen.name} ({file})"
        options = _settings(chosen.options, origin)
        layers.append(_settings(chosen.settings, origin))
        warnings += _warnings_of_mode(file, layers[0].values())
        _refuse_foreign_command(str(file), chosen.settings)
    path = properties_file
    if path is None and "command_config" in options:
        path = str(file.parent / pathlib.Path(options["command_config"].value).expanduser())
    if path is not None:
        layers.append(_from_properties(path, environment, warnings))
    in_files = _bootstrap_of(ClientSettings(_merged(layers)), options)
    layers.append(_from_environment(environment))
    layers.append({setting.key: setting for setting in overrides})
    merged = _merged(layers)
    if merged:
        warnings += _warnings_of_keys(merged)
        warnings += _warnings_of_key_files(merged)
    return LoadedSettings(
        client=ClientSettings(merged),
        profile_options=options,
        profile=None if chosen is None else chosen.name,
        warnings=tuple(warnings),
        in_files=in_files,
    )


def _merged(layers: Iterable[Mapping[str, Setting]]) -> dict[str, Setting]:
    """The settings of all layers; later layers win."""
    merged: dict[str, Setting] = {}
    for layer in layers:
        for key, setting in layer.items():
            merged[_BOOTSTRAP if key == "metadata.broker.list" else key] = setting
    return merged


def bootstrap_of(profile: Profile) -> Setting | None:
    """The bootstrap servers that a profile itself names; its command_config may name others."""
    settings = ClientSettings(_merged([_settings(profile.settings, profile.name)]))
    found = _bootstrap_of(settings, _settings(profile.options, profile.name))
    return None if found is None else replace(found, key=_BOOTSTRAP)


def config_file(environment: Mapping[str, str]) -> pathlib.Path:
    """The file with the profiles: `$XDG_CONFIG_HOME/kgm/config.toml`."""
    return pathlib.Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "kgm" / "config.toml"


def _from_properties(path: str, environment: Mapping[str, str], warnings: list[str]) -> dict[str, Setting]:
    from kgm.operations.settings.properties import read_numbered_properties  # most commands read no such file

    numbered = read_numbered_properties(path)
    properties = {key: value for key, (value, _) in numbered.items()}
    warnings += _warnings_of_mode(pathlib.Path(path), _settings(properties, path).values())
    _refuse_foreign_command(path, properties)
    if "config.providers" in properties:
        from kgm.operations.settings.config_providers import resolve_placeholders

        properties = resolve_placeholders(properties, path, environment)
    return {
        key: Setting(key=key, value=value, origin=path, lines=numbered[key][1]) for key, value in properties.items()
    }


def _settings(values: Mapping[str, str], origin: str) -> dict[str, Setting]:
    return {key: Setting(key=key, value=value, origin=origin) for key, value in values.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """Settings from variables: `KGM_SASL_PASSWORD` is sasl.password. KGM_BOOTSTRAP_SERVER is named after the option, as
    help shows it."""
    if not any(name.startswith("KGM_") for name in environment):
        return {}

    names = {environment_name(key): key for key in USED}
    names["KGM_BOOTSTRAP_SERVER"] = _BOOTSTRAP
    return {
        key: Setting(key=key, value=environment[name], origin=f"environment ({name})")
        for name, key in names.items()
        if environment.get(name)
    }


# -- what to warn about ------------------------------------------------------------------------------------------------


def _warnings_of_keys(merged: Mapping[str, Setting]) -> Iterator[str]:
    unnamed: list[Setting] = []
    for key, setting in merged.items():
        if key in NOT_DONE and setting.value not in MSK_HANDLERS:
            yield f"{key} ({setting.origin}): kgm does not support this setting and ignores it"
        elif not is_known(key):
            known = {*USED, *(PROFILE_OPTIONS if setting.origin.startswith("profile ") else ())}
            meant = closest(key, known, cutoff=0.8)
            if meant is None and setting.lines is not None:
                unnamed.append(setting)
                continue
            suggestion = f"; did you mean {meant}?" if meant else ""
            yield f"{setting.name} ({setting.origin}): {_UNKNOWN} this setting{suggestion}"
    yield from _warnings_of_lines(unnamed)


_UNKNOWN = "neither a Kafka client nor kgm has"


def _warnings_of_lines(unnamed: Iterable[Setting]) -> Iterator[str]:
    """One warning for each run of consecutive lines, because the rest of a broken value may span many."""
    runs: list[tuple[str, range]] = []
    for lines, origin in sorted(((one.lines, one.origin) for one in unnamed if one.lines), key=lambda one: one[0][0]):
        if runs and lines[0] == runs[-1][1].stop:
            runs[-1] = origin, range(runs[-1][1].start, lines.stop)
        else:
            runs.append((origin, lines))
    for origin, lines in runs:
        if len(lines) == 1:
            yield f"line {lines[0]} ({origin}): {_UNKNOWN} this setting"
        else:
            yield (
                f"lines {lines[0]} to {lines[-1]} ({origin}): {_UNKNOWN} these settings; a value that continues on the "
                "next line needs a backslash at the end of each line"
            )


def _refuse_foreign_command(path: str, settings: Mapping[str, str]) -> None:
    """Raises RefusedError if the file names a program to run and others can write to it."""
    if TOKEN_COMMAND in settings:
        refuse_foreign(path, f"which command kgm runs ({TOKEN_COMMAND})")


def _warnings_of_mode(path: pathlib.Path, settings: Iterable[Setting]) -> list[str]:
    # A placeholder of a config provider is not a secret.
    has_secret = any(one.value and not one.value.startswith("${") and is_secret(one.key) for one in settings)
    return _warnings_of_open_file(path) if has_secret else []


def _warnings_of_key_files(merged: Mapping[str, Setting]) -> Iterator[str]:
    for key in ("ssl.keystore.location", "ssl.key.location"):
        if key in merged and merged[key].value:
            yield from _warnings_of_open_file(pathlib.Path(merged[key].value).expanduser())


def _warnings_of_open_file(path: pathlib.Path) -> list[str]:
    try:
        mode = path.stat().st_mode
        is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    except OSError:
        return []  # reading it fails later, with an error of its own
    if is_read_only:
        return []  # such as a mounted Kubernetes Secret, whose mode the reader cannot change
    if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        return [f"{path} contains secrets and is accessible to other users: chmod 600 {shlex.quote(str(path))}"]
    return []
