"""What a command prints.

A command makes a `Report` (`report`), which has tables for people and data for programs. `contracts` says what that
data contains and makes it from typed values, `schema` makes JSON Schemas of it. `streams` writes to stdout and stderr,
`failures` and `notices` print errors and warnings, `progress` the line that says what takes time. `watch` shows groups
as they change, `pages` makes HTML reports."""
