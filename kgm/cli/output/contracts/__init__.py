"""What `data` contains in the JSON of each command: the contract of version 1, to which keys may be added.

One module per command, named after it, with `FORMS` (by the name in `kgm.NAME/v1`) and the functions that make these
objects from typed values. `groups` has what several commands share, `index` has all forms.

In a form, a dict is an object with these keys, always present unless the key ends in `?`; {"*": X} is an object that
maps any name to X; [X] is an array; a tuple is one of several; "str", "int", "float", "bool", "any" are types, nullable
if followed by `?`; "=a|b" is one of these words."""
