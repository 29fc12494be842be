"""What changed in groups between two snapshots, which may be files or the cluster as it is now.

`comparison` pairs the groups of both sides and compares them; how two snapshots of one group are compared is in
`kgm.model.changes`."""
