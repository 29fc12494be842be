"""Removing members: plan, guard, preview, send, verify, audit."""
