"""The embedded server, the misbehaving broker and the joiners of the client's tests."""

from tests.client.conftest import form, group, newcomer, proxy, server

__all__ = ["form", "group", "newcomer", "proxy", "server"]
