"""Members and pods, as reported by a stand-in for kubectl."""
