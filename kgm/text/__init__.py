"""Text that people type or read.

`durations` and `braces` parse what people type, `wording` has the phrases that every command uses, `sanitize` makes
foreign strings safe to print."""
