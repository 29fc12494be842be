"""How a command ends, as docs/exit-codes.md lists it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ending:
    """What makes a command end with a code. words: behind the command; what is in braces is filled in."""

    command: str
    code: int
    when: str
    words: str

    @property
    def id(self):
        return f"{self.command.replace(' ', '-')}-{self.code}"
