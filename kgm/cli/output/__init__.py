"""What a command prints.

A command makes a `Report` (`report`), which has tables for people and data for programs. `contracts` defines what that
data contains and makes it from typed values, `schema` makes JSON Schemas from the definitions. `streams` writes to
stdout and stderr, `failures` and `notices` print errors and warnings, `progress` prints the line that shows what is
taking time. `watch` shows groups as they change, `pages` makes HTML reports."""
