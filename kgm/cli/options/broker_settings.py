"""`--set BROKER.KEY=VALUE` and `--kafka-version` of `serve` and `simulate-bounce`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.model.errors import UsageError
from kgm.text.braces import expand_list

if TYPE_CHECKING:
    from kgm.coordinator.contract.broker_version import BrokerVersion

_PREFIX = "broker."

KafkaVersion = Annotated[
    str | None,
    typer.Option(
        "--kafka-version",
        metavar="VERSION",
        help="Behave as the brokers of this version: 2.8, 3.9, 3.9+new (with the new coordinator), 4.3.",
    ),
]


def parse_version(text: str | None) -> BrokerVersion | None:
    """None if no version is given. Raises UsageError for one that kgm does not know."""
    if text is None:
        return None
    from kgm.coordinator.contract.broker_version import BrokerVersion

    return BrokerVersion.parse(text)


def parse_settings(items: Iterable[str]) -> dict[str, str]:
    """Values by key, without a leading `broker.`. Lists of instance ids may have braces, as in all commands.

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
