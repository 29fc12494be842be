"""The embedded server and the joiners of the client's tests."""

from tests.client.conftest import form, group, server

__all__ = ["form", "group", "server"]
