"""The embedded server of the client's tests, and groups of members that are single requests."""

from tests.client.conftest import form, group, server

__all__ = ["form", "group", "server"]
