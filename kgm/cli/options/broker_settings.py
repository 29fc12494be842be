"""`--set BROKER.KEY=VALUE` of `serve`, `simulate-bounce` and others."""

from __future__ import annotations

from collections.abc import Iterable

from kgm.model.errors import UsageError
from kgm.text.braces import expand_list

_PREFIX = "broker."


def parse_settings(items: Iterable[str]) -> dict[str, str]:
    """Values by key, without a leading `broker.`. Lists of instance ids can contain braces, as in all commands.

    Raises UsageError for an item that is not KEY=VALUE."""
    from kgm.coordinator.contract.scale_out_plan import INSTANCE_IDS

    settings: dict[str, str] = {}
    for item in items:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise UsageError(f"--set {item} is not BROKER.KEY=VALUE")
        key = key.removeprefix(_PREFIX)
        settings[key] = ",".join(expand_list(value, f"--set {key}")) if key.startswith(INSTANCE_IDS) else value
    return settings
