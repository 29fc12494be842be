"""Values of client settings, without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgm.model.errors import UsageError

if TYPE_CHECKING:
    from kgm.operations.settings.loading import Setting

HIDDEN = "(hidden)"
#: Options of a login module that are not secret.
_OPEN_JAAS_OPTIONS = ("username", "clientId", "scope", "serviceName", "tokenauth")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """A setting that can be printed. text: the value for people; value: for programs, None for a secret."""

    key: str
    value: str | None
    text: str | None
    is_secret: bool
    origin: str


def redacted(setting: Setting) -> ShownSetting:
    """The setting, without anything that may be a secret."""
    text, is_secret = redacted_text(setting), _is_hidden(setting)
    return ShownSetting(
        key=setting.name, value=None if is_secret else text, text=text, is_secret=is_secret, origin=setting.origin
    )


def _is_hidden(setting: Setting) -> bool:
    """Whether the value is or may be a secret. An unknown key, such as `sasl.pasword`, may hold one. So may a value of
    several lines, because a stray backslash may have joined lines, unless kgm uses the setting and so has checked
    it."""
    from kgm.model.client_settings import USED, is_named, is_secret

    is_joined = setting.lines is not None and len(setting.lines) > 1
    return is_secret(setting.key) or not is_named(setting.key) or (is_joined and setting.key not in USED)


def redacted_text(setting: Setting) -> str:
    """The value for people; `(hidden)` if it may be a secret. Login modules show their options that are not secret."""
    if setting.key == "sasl.jaas.config":
        return _redacted_jaas(setting.value)
    if _is_hidden(setting):
        return HIDDEN if setting.value else ""
    if "-----BEGIN" in setting.value:
        return f"(PEM, {setting.value.count('-----BEGIN')} blocks)"
    if setting.key.endswith(".command"):  # its arguments may be secret
        program, blank, _ = setting.value.strip().partition(" ")
        return f"{program} ..." if blank else program
    return _redacted_address(setting.value)


def _redacted_address(text: str) -> str:
    """The URL without its user and query, because people put secrets in both; other text unchanged."""
    scheme, slashes, rest = text.partition("://")
    if not slashes:
        return text
    if "@" in rest.partition("/")[0]:
        rest = f"{HIDDEN}@{rest.partition('@')[2]}"
    address, mark, _ = rest.partition("?")
    return f"{scheme}://{address}?{HIDDEN}" if mark else f"{scheme}://{rest}"


def _redacted_jaas(text: str) -> str:
    from kgm.client.security.jaas import is_option, parse_jaas

    try:
        module = parse_jaas(text)
    except UsageError:
        return HIDDEN
    options = (
        f'{key}="{value}"' if key in _OPEN_JAAS_OPTIONS else f"{key if is_option(key) else HIDDEN}={HIDDEN}"
        for key, value in module.options.items()
    )
    return " ".join([module.short_name, "required", *options]) + ";"
