"""Sockets and the event loop: frames in order, everything bounded."""
