"""sasl.jaas.config as Kafka's tokenizer reads it, and errors that show no value."""

import pytest

from kgm.client.security.jaas import parse_jaas
from kgm.model.errors import UsageError
from tests.kafka.secured import CANARY

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="u" password="p";', {"username": "u", "password": "p"}),
        (f"{PLAIN} required username='u' password='p\"q';", {"username": "u", "password": 'p"q'}),
        (f'{PLAIN} REQUIRED password="a\\"b\\\\c\\n\\x" ;', {"password": 'a"b\\c\nx'}),
        (f'{PLAIN} required a="\\101\\7\\400" ;', {"a": "A\x07\x200"}),
        (
            f'  {PLAIN}\n required // who\n username = "u" /* and\nhow */ password="p;=" ;\n',
            {"username": "u", "password": "p;="},
        ),
        (f"{PLAIN} optional username=u.v-w_x$y number=12;", {"username": "u.v-w_x$y", "number": "12"}),
        (f"{PLAIN} sufficient;", {}),
        (f'{PLAIN} requisite a="" a="2";', {"a": "2"}),
        (f'{PLAIN} required p="// no /* comment";', {"p": "// no /* comment"}),
        (f'{PLAIN} required p="ü€\U0001f512";', {"p": "ü€\U0001f512"}),
    ],
)
def test_read(text, options):
    found = parse_jaas(text)
    assert (found.module, found.short_name, found.options) == (PLAIN, "PlainLoginModule", options)
    assert "password" not in repr(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no login module"),
        (";", "names no login module"),
        (f"{PLAIN}", "control flag"),
        (f'{PLAIN} username="{CANARY}";', "control flag"),
        (f'{PLAIN} required password="{CANARY}"', "semicolon"),
        (f'{PLAIN} required password="{CANARY};', "unclosed quote"),
        (f"{PLAIN} required password='{CANARY}\n';", "unclosed quote"),
        (f'{PLAIN} required password "{CANARY}";', "no value for option 'password'"),
        (f"{PLAIN} required password={CANARY}!x;", "must be quoted"),
        (f'{PLAIN} required "{CANARY}";', "option without a name"),
        (f"{PLAIN} required password=my {CANARY.replace('-', '_')};", "option without a name or a value"),
        (f"{PLAIN} required password=my {CANARY.replace('-', '_')}=;", "option without a name or a value"),
        (f"{PLAIN} required password=;", "no value for option 'password'"),
        (f"{PLAIN} required password=", "no value for option 'password'"),
        (f'{PLAIN} required = "{CANARY}";', "option without a name"),
        (f'{PLAIN} required p="{CANARY}"; {PLAIN} required;', "more than one"),
        (f"{PLAIN} required /* {CANARY} ", "must be quoted"),
    ],
)
def test_what_cannot_be_read_is_named_and_shows_no_value(text, says):
    with pytest.raises(UsageError, match=says) as caught:
        parse_jaas(text)
    assert CANARY not in caught.value.message + repr(caught.value.facts) + (caught.value.hint or "")
