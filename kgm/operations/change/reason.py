"""The reason for a change: in the audit log and, for a LeaveGroup, also in the broker's log (KIP-800)."""

from kgm.model.errors import UsageError

#: Kafka's clients cut reasons at this length (KIP-800).
MAX_REASON_CHARACTERS = 255


def check_reason(text: str) -> None:
    """Raises UsageError for a reason that the broker's log could not show unchanged."""
    if not text.strip():
        raise UsageError("--reason: the text is empty", hint="omit the option for the default reason")
    if len(text) > MAX_REASON_CHARACTERS:
        raise UsageError(f"--reason: {len(text)} characters; Kafka accepts at most {MAX_REASON_CHARACTERS}")
    if not text.isprintable():
        raise UsageError("--reason: the text contains characters that would corrupt the broker's log")
