"""Which members go when a StatefulSet gets fewer replicas, what that does to their group, and the commands for it
(`kgm scale-in`). Nothing is changed."""
