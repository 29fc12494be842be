"""Members and pods, as a stand-in for kubectl tells it."""
