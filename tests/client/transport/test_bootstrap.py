"""Bootstrap lists as people write them."""

import pytest

from kgm.client.transport.bootstrap import Address, parse_bootstrap
from kgm.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker:9093", [Address("broker", 9093)]),
        ("broker", [Address("broker", 9092)]),
        (" a:1 , b:2 ,", [Address("a", 1), Address("b", 2)]),
        ("a:1,a:1,b:1", [Address("a", 1), Address("b", 1)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[fe80::1%eth0]", [Address("fe80::1%eth0", 9092)]),
        ("PLAINTEXT://broker:9094,SASL_SSL://[::1]:1", [Address("broker", 9094), Address("::1", 1)]),
        ("127.0.0.1:65535", [Address("127.0.0.1", 65535)]),
    ],
)
def test_addresses(text, expected):
    assert list(parse_bootstrap(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "host:",
        "host:0",
        "host:65536",
        "host:nine",
        "host:-1",
        "::1:9092",
        "[::1",
        "[::1]9092",
        ":9092",
        "a b:1",
        "h/x:1",
        "host:²",
        "host:" + "9" * 5_000,
    ],
)
def test_what_is_no_address_is_a_usage_error_that_names_it(text):
    with pytest.raises(UsageError) as caught:
        parse_bootstrap(text)
    assert caught.value.exit_code == 2
    assert repr(text.strip()) in caught.value.message or "empty" in caught.value.message


@pytest.mark.parametrize("text", ["user:s3cret@h:1", "h:1,u:s3c,ret@h", "SASL_SSL://u:s3cret@h:1", "u:s3c/ret@h"])
def test_a_login_in_an_address_is_not_shown(text):
    with pytest.raises(UsageError, match="a user or a password") as caught:
        parse_bootstrap(text)
    assert "s3c" not in str(vars(caught.value))


def test_addresses_read_back():
    for text in ("broker:9093", "[::1]:9093"):
        (address,) = parse_bootstrap(text)
        assert parse_bootstrap(str(address)) == (address,)
