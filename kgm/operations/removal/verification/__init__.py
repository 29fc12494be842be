"""Checks that a removal may still be sent, and what its outcome was."""
