"""How `kgm history` prints its results.

`rows_json` makes its JSON objects from typed rows, `forms` has their contract (written as in
`kgm.cli.output.contracts`); `words` and `bars` make the cells and bars of its tables and pages."""
