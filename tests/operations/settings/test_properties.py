"""client.properties, line by line as java.util.Properties reads it (each case was run through the JVM)."""

import pytest

from kgm.model.errors import MissingFileError, UsageError
from kgm.operations.settings.properties import read_properties
from tests.kafka.secured import CANARY


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b \n", {"a": "b "}),
        ("a:b\nc d\ne\n=f\ng==h\ni = :j", {"a": "b", "c": "d", "e": "", "": "f", "g": "=h", "i": ":j"}),
        ("# c\n! c\\\n\n  # c\na=1", {"a": "1"}),
        ("a=1,\\\n   2,\\\r\n\t3\n", {"a": "1,2,3"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a=x\\\\\\\ny", {"a": "x\\y"}),
        ("a=x\\\n\nb=y", {"a": "x", "b": "y"}),
        ("a=x\\\n#y", {"a": "x#y"}),
        ("\\\n#y\na=1", {"a": "1"}),
        ("a=x\\", {"a": "x"}),
        ("a\\=\\:\\ b=c\\d\\t\\u00FC", {"a=: b": "cd\t\u00fc"}),
        ("a=\\\\u00fc\\\\", {"a": "\\u00fc\\"}),
        ("a=\u00fc\x85\x0b", {"a": "\u00fc\x85\x0b"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
    ],
)
def test_read_as_java_does(tmp_path, text, found):
    path = tmp_path / "p"
    path.write_bytes(text.encode("latin-1"))
    assert read_properties(str(path)) == found


def test_unreadable_files(tmp_path):
    path = tmp_path / "p"
    path.write_text(f"a=b\npassword={CANARY}\\u12")
    with pytest.raises(UsageError, match=r"line 2: \\u needs four") as caught:
        read_properties(str(path))
    assert CANARY not in caught.value.message
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_properties(str(tmp_path))
    with pytest.raises(MissingFileError):
        read_properties(str(tmp_path / "none"))


def test_properties_as_java_reads_them(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(
        "# c\n! c\n\nbootstrap.servers = a:1,\\\n   b:2\nx:y\nspaced value\nempty=\nuni=\\u0041\\t.\nk\\=ey=v\n"
    )
    assert read_properties(str(path)) == {
        "bootstrap.servers": "a:1,b:2", "x": "y", "spaced": "value", "empty": "", "uni": "A\t.", "k=ey": "v",
    }  # fmt: skip


def test_a_missing_properties_file_is_not_found(tmp_path):
    with pytest.raises(MissingFileError):
        read_properties(str(tmp_path / "none"))
