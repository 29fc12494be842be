"""Logs of user topics and of `__consumer_offsets`, in memory and on disk."""
