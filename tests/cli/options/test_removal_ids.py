"""Ids in a file: each line is one id, whatever is in it."""

import io

import pytest

from kgm.cli.main import run
from kgm.cli.options.removal_ids import read_ids
from kgm.cli.options.run_options import RunOptions
from kgm.cli.output.report import Report, rendered
from kgm.model.errors import UsageError
from tests.text.hostile import WIRE


@pytest.fixture(params=["file", "stdin"])
def read(request, tmp_path, monkeypatch):
    """Reads bytes as a file and from stdin, in a locale that is not UTF-8."""

    def each(data):
        if request.param == "file":
            (tmp_path / "ids").write_bytes(data)
            return read_ids(str(tmp_path / "ids"))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "ascii", "surrogateescape"))
        return read_ids("-")

    return each


def test_white_space_at_the_ends_of_an_id_is_escaped(read):
    assert read(b"\\x20w1\nw1\r\nw1\\x20\n\n  \n\\x09w1\na b\n") == (" w1", "w1", "w1 ", "\tw1", "a b")


@pytest.mark.parametrize("line", [" w1", "w1 ", "w1\t", "\u3000w1", "  # old"])
def test_it_is_not_known_whether_other_white_space_is_a_part_of_an_id(read, line):
    with pytest.raises(UsageError, match=r"line 2: .* begins or ends with white space") as caught:
        read(f"w1\n{line}\n".encode())
    assert caught.value.exit_code == 2


def test_what_python_takes_for_a_line_end_is_a_part_of_an_id(read):
    ids = [f"a{char}b" for char in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"]
    assert all(len(one.splitlines()) == 2 for one in ids)
    assert read("\n".join(ids).encode()) == tuple(ids)


def test_a_carriage_return_within_a_line_is_an_error(read):
    with pytest.raises(UsageError, match="line 2: a carriage return") as caught:
        read(b"a\nb\rc\n")
    assert caught.value.exit_code == 2


def test_comments_need_a_space(read):
    assert read(b"# old\n#\n#x\n##\nx # y\n") == ("#x", "##", "x # y")


def test_a_byte_order_mark_is_not_a_part_of_the_first_id(read):
    assert read(b"\xef\xbb\xbfb-1\nb-2\n") == ("b-1", "b-2")
    assert read("b-1\n\ufeffb-2\n".encode()) == ("b-1", "\ufeffb-2")


@pytest.mark.parametrize("data", [b"a\xff\n", "b-1\n".encode("utf-16"), b"", b"# a\n\n"])
def test_what_is_no_list_of_ids_is_a_usage_error(read, data):
    with pytest.raises(UsageError, match=r"UTF-|no id"):
        read(data)


def test_a_closed_stdin_is_a_usage_error(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="stdin is closed"):
        read_ids("-")


def test_the_names_of_a_report_come_back(read):
    ids = [*WIRE, "#", "# x", "#x", " ", "  ", " a", "a ", "\u3000a", "a\t", "\\x1b", "a\\b"]
    printed = rendered(Report(schema="kgm.test/v1", data={}, names=ids), RunOptions(output="name"))
    assert list(read(printed.encode())) == ids


@pytest.mark.parametrize("command", ["delete-groups", "remove-members"])
def test_an_empty_list_is_refused_in_words_that_fit_each_command(command, tmp_path, capsys):
    (tmp_path / "ids").write_text("# none\n")
    words = ["g"] if command == "remove-members" else []
    assert run([command, *words, "--from-file", str(tmp_path / "ids"), "-b", "127.0.0.1:1"]) == 2
    assert "hint: an empty list never means all\n" in capsys.readouterr().err
