"""The embedded server of the client's tests, and groups of members that are single requests."""

from tests.client.conftest import group, proxy, server

__all__ = ["group", "proxy", "server"]
