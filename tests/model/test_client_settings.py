"""What is taken out of texts that come from others."""

import base64

import pytest

from kgm.model.client_settings import scrubbed

SECRET = "s3cret-Canary!"


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"user={SECRET};",
        *(base64.b64encode(b"x" * before + SECRET.encode() + b"y" * 5).decode() for before in range(4)),
        base64.b64encode(f"\0nadia\0{SECRET}".encode()).decode(),
        base64.urlsafe_b64encode(f"\xff\xfe{SECRET}?>".encode()).decode().rstrip("="),
        "a" + base64.b64encode(SECRET.encode()).decode(),
        SECRET.encode().hex(),
        "f" + SECRET.encode().hex().upper(),
    ],
)
def test_a_secret_is_taken_out_however_it_is_written(text):
    shown = scrubbed(f"no user {text} is known", (SECRET,))
    assert shown.startswith("no user ")
    assert shown.endswith(" is known")
    assert "***" in shown
    for piece in (SECRET, base64.b64encode(SECRET.encode()).decode()[:12], SECRET.encode().hex()[:12]):
        assert piece.lower() not in shown.lower()


def test_other_words_stay():
    text = "Authentication failed: Invalid username or password (SCRAM-SHA-512, c2NyYW0= deadbeef)"
    assert scrubbed(text, (SECRET, "", "pw")) == text
