"""The values that every layer speaks of: ids, error codes and errors, assignments and moves, and the group snapshot.

Nothing here does anything to a cluster. A `GroupSnapshot` is what `kgm describe -o json` prints and what
`simulate-bounce`, `diff` and `assign` read: the one bridge between the layers that look outward and those that don't.
"""
