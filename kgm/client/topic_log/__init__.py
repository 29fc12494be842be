"""Records of a topic's partitions, read below the admin client; and which topics a group's log has commits for."""
