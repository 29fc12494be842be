"""What `data` of each command's JSON contains: the contract of version 1, to which keys may be added.

One module for each command, named as the command, with `FORMS` (by the name in `kgm.NAME/v1`) and the functions that
make these objects from typed values. `groups` has what several commands share, `index` all forms together.

In a form a dict is an object with these keys, always present unless the key ends in `?`; {"*": X} is an object from any
name to X; [X] is an array; a tuple is one of several; "str", "int", "float", "bool", "any"; a `?` after it is nullable;
"=a|b" is one of these words."""
