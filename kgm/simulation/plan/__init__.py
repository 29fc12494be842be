"""What is going to be done to a group, and the group that it begins with."""
