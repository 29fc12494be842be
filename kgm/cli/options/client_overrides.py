"""`-X KEY=VALUE`: Kafka client settings on the command line, where secrets do not belong."""

from collections.abc import Iterable

from kgm.model.errors import UsageError
from kgm.operations.settings.loading import Setting
from kgm.text.names import closest


def parse_overrides(items: Iterable[str]) -> list[Setting]:
    """The settings. Raises UsageError, without showing the value, for a secret or an item without a key or a value."""
    overrides = []
    for item in items:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise UsageError("-X: write KEY=VALUE", hint="for example: -X security.protocol=SSL")
        from kgm.model.client_settings import USED, environment_name, is_known, is_secret

        meant = key if is_known(key) else closest(key, USED, cutoff=0.8) or key  # sasl.pasword is a secret too
        if is_secret(key) or is_secret(meant):
            raise UsageError(
                f"-X {key}: every process on this machine can read a secret on the command line",
                hint=f"write it into a --command-config file (mode 600), or export {environment_name(meant)}",
            )
        overrides.append(Setting(key=key, value=value, origin="-X"))
    return overrides
