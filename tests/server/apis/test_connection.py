"""ApiVersions and SASL without sockets."""

import struct

import pytest

from kgm.model.errors import ErrorCode
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import ApiVersionsResponse
from kgm.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kgm.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kgm.protocol.wire import decode_response
from kgm.server.contract.exchange import ResponseFrame
from tests.server.broker_driver import Driver

SERVED = {key: info for key, info in API.items() if key in Driver().broker._handlers}


def api_versions():
    return ApiVersionsRequest(client_software_name="kgm", client_software_version="1.0")


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_what_is_served_and_nothing_else(version):
    response = Driver().ask(api_versions(), version=version)
    assert response.error_code == 0
    listed = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    expected = {key: (info.min_version, info.max_version) for key, info in SERVED.items()}
    assert listed == expected | {ApiKey.PRODUCE: (0, API[ApiKey.PRODUCE].max_version)}  # so does Kafka
    if version >= 3:
        finalized = {row.name: row.max_version_level for row in response.finalized_features}
        assert finalized == {"group.version": 1, "streams.version": 1}


@pytest.mark.parametrize("version", [5, 9, 32767])
def test_an_api_versions_of_the_future_is_answered_in_the_layout_of_version_0(version):
    driver = Driver()
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 5, 1) + b"c\0" + b"\2k\2v\0future"
    event = driver.events[driver.frame(frame)]
    assert isinstance(event, ResponseFrame)
    correlation_id, response = decode_response(ApiVersionsResponse, event.frame, version=0)
    assert correlation_id == 5
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-x", "a b", "x.", "ä"])
def test_api_versions_checks_the_name_of_the_software(name):
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert Driver().ask(request).error_code == ErrorCode.INVALID_REQUEST
    assert Driver().ask(request, version=2).error_code == 0


def test_sasl_is_refused():
    driver = Driver()
    assert driver.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert driver.ask(SaslAuthenticateRequest(auth_bytes=b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
