"""Records of user topics: enough of Produce, Fetch and ListOffsets that real producers and consumers work."""
