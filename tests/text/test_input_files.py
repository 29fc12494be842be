"""Only what ends is read, and only so much of it."""

from __future__ import annotations

import os

import pytest

from kgm.text.input_files import open_input, read_input


def test_a_file_is_read_whole(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert read_input(str(tmp_path / "f"), 3) == b"abc"
    with pytest.raises(OSError, match="it has more than 0 MiB"):
        read_input(str(tmp_path / "f"), 2)


def test_what_a_shell_hands_over_as_a_pipe_is_read():
    reader, writer = os.pipe()
    try:
        os.write(writer, b"of a command")
        os.close(writer)
        assert read_input(f"/dev/fd/{reader}") == b"of a command"
    finally:
        os.close(reader)


def test_a_pipe_without_an_end_is_not_read_on():
    """More than fits into a pipe is not written here, so the bound is small."""
    reader, writer = os.pipe()
    try:
        os.write(writer, b"x" * 1000)
        with pytest.raises(OSError, match="it has more than"):
            read_input(f"/dev/fd/{reader}", 500)
    finally:
        os.close(reader)
        os.close(writer)


def test_dev_null_is_an_empty_file():
    assert read_input("/dev/null") == b""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "it is a FIFO"),
        (os.mkdir, "Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
    ],
)
def test_what_has_no_end_is_refused(tmp_path, make, said):
    make(tmp_path / "it")
    with pytest.raises(OSError, match=said):
        open_input(str(tmp_path / "it"))


def test_a_huge_file_is_refused_before_it_is_read(tmp_path, mocker):
    with (tmp_path / "f").open("wb") as file:
        file.truncate(1 << 40)
    read = mocker.patch("kgm.text.input_files.os.fdopen", wraps=os.fdopen)
    with pytest.raises(OSError, match="more than 256 MiB"):
        read_input(str(tmp_path / "f"))
    assert read.call_count == 1
