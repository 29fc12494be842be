"""Records of user topics: enough of Produce, Fetch and ListOffsets for real producers and consumers to work."""
