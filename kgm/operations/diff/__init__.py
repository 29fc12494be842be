"""What changed in groups between two snapshots, which can be files or the cluster as it is now.

`comparison` pairs the groups of both sides and compares them; `kgm.model.changes` compares two snapshots of one
group."""
