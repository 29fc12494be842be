"""Delete groups that are empty and idle, and committed offsets of topics that no member of a group reads anymore."""
