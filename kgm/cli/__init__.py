"""The command line: the only package that uses typer, rich and tabulate, and the only one that prints.

`entry` is the console script, `main` the command tree and the place where errors become exit codes. `commands` has one
module per command, named after it: it parses, calls one operation and renders the result. `options` turns the command
line, files and profiles into checked values, `output` prints reports in the formats of `-o`, `completion` answers
shells. Command modules import what they run inside their functions, so that `--help` imports none of it."""
