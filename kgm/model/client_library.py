"""Which client library a member runs on: the verdict, and the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JAVA, LIBRDKAFKA = "java", "librdkafka"
FRANZ_GO, SARAMA, KAFKA_GO = "franz-go", "sarama", "kafka-go"
KAFKAJS, PLATFORMATIC = "kafkajs", "platformatic"
KAFKA_PYTHON, AIOKAFKA = "kafka-python", "aiokafka"
#: The libraries whose consumers kgm plays as they are.
PLAYED: Final = frozenset((JAVA, LIBRDKAFKA))
CERTAIN, LIKELY, UNKNOWN = CONFIDENCES = ("certain", "likely", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLibrary:
    """name: None unless the confidence is `certain` or `likely`.

    confidence: `certain` if what the member sends can only come from this library, or an operator has stated it;
    `likely` if several libraries send that, and something weaker (a default client id, default timeouts, what the
    group's leader writes) leaves only one of them; otherwise `unknown`. evidence: sentences. candidates: the libraries
    that the evidence leaves; empty if kgm knows no library that sends this, or if there is no evidence."""

    name: str | None = None
    confidence: str = UNKNOWN
    evidence: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For people: the name, or the candidates."""
        return self.name or " or ".join(self.candidates) or "unknown"


def stated_library(name: str | None, by: str = "the snapshot") -> ClientLibrary | None:
    """A library that does not have to be recognized, because `by` names it. None for no name."""
    if name is None:
        return None
    return ClientLibrary(name=name, confidence=CERTAIN, evidence=(f"{by} says so",), candidates=(name,))
