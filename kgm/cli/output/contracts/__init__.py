"""What `data` contains in the JSON of each command: the contract of version 1, to which keys may be added.

One module per command, named after it, with `FORMS` (by the name in `kgm.NAME/v1`) and the functions that make these
objects from typed values. `groups` has what several commands share, `index` has all forms. `kgm.model.forms.json_form`
makes objects by their forms, and says how forms are written."""
