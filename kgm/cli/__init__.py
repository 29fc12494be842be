"""What a person types: the only place with typer, rich and tabulate, and the only one that prints.

One module a command, imported at start-up, so a module here imports nothing heavy at its top: the work is imported
inside the command's function. `options` holds what every cluster command takes, `output` turns a `Report` into the
formats of `-o`, `sanitize` stands between foreign strings and the terminal, `main` maps errors to exit codes.
"""
