"""Groups looked at again and again: what happened, and whether a condition is met."""
