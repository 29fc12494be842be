"""The environment without variables that affect kgm, Kafka's tools or a terminal."""

import os

_SETTINGS = ("KGM_", "KAFKA_")
_OF_A_TERMINAL = ("NO_COLOR", "COLUMNS", "LINES")


def bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS + _OF_A_TERMINAL)}


def forget_settings(monkeypatch) -> None:
    """Remove them from this process."""
    for name in [name for name in os.environ if name.startswith(_SETTINGS)]:
        monkeypatch.delenv(name)
