"""How `kgm history` prints what it found.

`rows_json` makes the objects of its JSON from typed rows, `forms` is their contract (in the form of
`kgm.cli.output.contracts`); `words` and `bars` make the cells and the bars of its tables and pages."""
