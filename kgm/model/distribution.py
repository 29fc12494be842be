"""The name under which kgm is distributed. On PyPI, `kgm` is somebody else's package, so no hint may name it."""

from typing import Final

DISTRIBUTION: Final = "kafka-kgm"


def install_command(extra: str) -> str:
    """How to install kgm with an extra of pyproject.toml."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
