"""Files that are replaced as a whole, and locks."""

import os
import stat

import pytest

from kgm.text.files import replace_file, try_lock


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_file_is_replaced_as_a_whole(tmp_path, is_shared):
    stranger, path = tmp_path / "stranger", tmp_path / "file"
    stranger.write_bytes(b"mine")
    path.symlink_to(stranger)
    replace_file(path, b"one", mode=0o640, is_shared=is_shared)
    assert (path.read_bytes(), path.is_symlink(), stranger.read_bytes()) == (b"one", False, b"mine")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {"stranger", "file"}


def test_a_draft_of_a_process_that_was_killed_is_no_obstacle(tmp_path):
    (tmp_path / ".file.new").write_bytes(b"half of it, and more than the next")
    replace_file(tmp_path / "file", b"whole")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"whole"}


def test_a_failure_leaves_the_former_file(tmp_path, monkeypatch):
    replace_file(tmp_path / "file", b"former")
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "file", b"next")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"former"}


def test_a_lock_is_held_until_its_file_is_closed(tmp_path):
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert (try_lock(first), try_lock(second)) == (True, False)
    os.close(first)
    assert try_lock(second)
    os.close(second)
