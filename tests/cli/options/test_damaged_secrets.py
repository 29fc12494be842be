"""Whatever becomes of the lines of a secret in a client.properties: neither warnings nor `config view` print any of it.

Values are wrapped, quoted, raw, cut and moved to other lines, with the line ends and encodings that editors make."""

from __future__ import annotations

import base64
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.cli.main import run
from kgm.cli.output.failures import error_text
from kgm.cli.output.redaction import redacted
from kgm.client.security import make_security
from kgm.client.transport.bootstrap import parse_bootstrap
from kgm.model.errors import KgmError
from kgm.operations.settings.loading import load_settings

BEFORE = ("bootstrap.servers=localhost:9092", "security.protocol=SASL_PLAINTEXT", "client.id=ops")
AFTER = ("sasl.mechanism=PLAIN", "request.timeout.ms=1000", "metadata.max.age.ms=5000")
#: A piece of a secret is a run of 8 of these: no name of a setting has one, and the words of kgm are in small letters.
LETTERS = string.ascii_uppercase + string.digits
WORDS = st.text(LETTERS, min_size=12, max_size=30)
#: What stands between the pieces, or before them: much of it separates a key from a value, or begins a known prefix.
GLUE = st.sampled_from(["", "=", ":", " ", "\t", "\f", "\\=", "/", "+", "#", "!", '"', "'", ";", "==", "\\\\", "\\u0041",
                        "client.", "log.", "metric.", "sasl.", "topic ", "queue", "-----BEGIN ", "${env:", "}", "\x85"])  # fmt: skip
SECRETS = st.sampled_from([
    "sasl.password", "ssl.key.password", "sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem", "my.secret",
    "sasl.oauthbearer.client.secret", "basic.auth.user.info", "sasl.pasword",
])  # fmt: skip
SEPARATORS = st.sampled_from(
    ["=", " = ", ":", " ", "=\n", "=\n  ", "=\r\n\t", "=\\\n", "=\\\n   ", "= \\\r\n", '="', "='"]
)
BREAKS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n  ", "\n\t", "\\\n", "\\\r\n  ", "\\\n\n", "\\ \n", "\n# x\n"])
ENCODINGS = st.sampled_from(["latin-1", "utf-8-sig", "utf-8"])


@st.composite
def files(draw):
    """(file, the pieces of its secret)"""
    words = draw(st.lists(WORDS, min_size=1, max_size=4))
    pieces = [draw(GLUE) + word + draw(GLUE) for word in words]
    text = draw(SECRETS) + draw(SEPARATORS)
    for piece in pieces:
        text += piece + draw(BREAKS)
    lines = [*draw(st.permutations(BEFORE)), text, *draw(st.permutations(AFTER))]
    end = draw(st.sampled_from(["\n", "\r\n", "\r", "\\\n"]))
    data = end.join(lines).encode(draw(ENCODINGS), "replace")
    return data[: draw(st.integers(len(data) // 2, len(data)))] if draw(st.booleans()) else data, words


def pieces_in(shown, words):
    return [word[at : at + 8] for word in words for at in range(len(word) - 7) if word[at : at + 8] in shown]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def shown(home, capsys):
    """What `config view` prints."""
    path = home / "client.properties"

    def shown(data):
        path.write_bytes(data)
        path.chmod(0o600)
        code = run(["config", "view", "--show-origin", "--debug", "--command-config", str(path)])
        captured = capsys.readouterr()
        assert code in (0, 2), captured.err
        return captured.out + captured.err

    return shown


def everything_said(path):
    """What warnings, `config view`, errors about settings and a traceback have of a file."""
    try:
        loaded = load_settings(properties_file=str(path))
    except KgmError as error:
        return error_text(error)
    said = [repr(loaded), *loaded.warnings]
    for key in loaded.client:
        one = redacted(loaded.client.setting(key))
        said += [one.key, str(one.value), str(one.text)]
    for use in (lambda: parse_bootstrap(loaded.client["bootstrap.servers"]), lambda: make_security(loaded.client)):
        try:
            said.append(repr(use()))
        except KeyError:
            continue
        except KgmError as error:
            said.append(error_text(error))
    return "\n".join(said)


def check(path, count):
    @settings(max_examples=count, deadline=None)
    @given(files())
    def no_piece_is_printed(case):
        data, words = case
        path.write_bytes(data)
        text = everything_said(path)
        assert pieces_in(text, words) == [], text

    no_piece_is_printed()


@pytest.mark.long
def test_no_piece_of_a_damaged_secret_is_printed(home):
    check(home / "client.properties", 150)


@pytest.mark.long
def test_no_piece_of_many_damaged_secrets_is_printed(home):
    check(home / "client.properties", 5_000)


def test_a_password_on_the_next_line(shown):
    text = shown(b"bootstrap.servers=localhost:9092\nsasl.username=ops\nsasl.password=\n  canary-of-a-password\n")
    assert "canary" not in text
    assert "line 4 (" in text


def test_a_raw_key_is_one_warning(shown):
    body = base64.encodebytes(bytes(range(256)) * 3).decode()
    text = shown(f"ssl.keystore.key=-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\nacks=1\n".encode())
    lines = body.splitlines()
    assert pieces_in(text, lines) == []
    assert f"lines 2 to {len(lines) + 2} (" in text
    assert "needs a backslash at the end of each line" in text


def test_a_secret_that_became_a_part_of_another_value_is_an_error(shown):
    text = shown(b"client.id=ops\\\nsasl.password=canary-of-a-password\n")
    assert "canary" not in text
    assert "line 2: the line is a part of the value of line 1, and looks like a setting" in text
    assert "hint: remove the backslash at the end of line 1" in text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8"])
def test_a_byte_order_mark_does_not_hide_the_first_key(shown, encoding):
    text = shown("client.id=first\nacks=1\n".encode(encoding))
    assert "neither a Kafka client" not in text
    assert "client.id" in text


def test_utf_16_is_refused(shown):
    assert "is in UTF-16" in shown("client.id=first\n".encode("utf-16"))
