"""Which members leave when a StatefulSet is scaled in, what that does to their group, and the commands to do it
(`kgm scale-in`). Nothing is changed."""
