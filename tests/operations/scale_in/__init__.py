"""Which members go when a StatefulSet is scaled in."""
