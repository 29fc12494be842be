"""How a command ends, as docs/exit-codes.md lists it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ending:
    """What makes a command end with a code. words: after the command; names in braces are replaced."""

    command: str
    code: int
    when: str
    words: str

    @property
    def id(self):
        return f"{self.command.replace(' ', '-')}-{self.code}"
