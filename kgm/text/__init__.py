"""Text that people type or read.

`durations` and `braces` parse what people type, `wording`, `joined_moves` and `timestamps` have the phrases that all
commands share, `sanitize` makes foreign strings safe to print."""
