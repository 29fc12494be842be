"""How a run prints: the values of `-o`, `--color`, `--no-headers` and `--debug`."""

from __future__ import annotations

from dataclasses import dataclass

FORMATS = ("table", "wide", "json", "yaml", "csv", "tsv", "name", "ndjson", "markdown", "schema")
COLORS = ("auto", "always", "never")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """output: one of FORMATS. color: one of COLORS."""

    output: str = "table"
    headers: bool = True
    color: str = "auto"
    debug: bool = False

    @property
    def is_data(self) -> bool:
        """Whether stdout is for a program rather than for a person."""
        return self.output not in ("table", "wide")
