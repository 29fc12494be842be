"""Certificates for tests without a broker."""

import pytest

from tests.kafka.certificates import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A CA, a broker's certificate for 127.0.0.1, a client's, and the certificates of an untrusted CA."""
    return Certificates(tmp_path_factory.mktemp("certificates"))
