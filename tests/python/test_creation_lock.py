"""The lock among processes that create the same server: another user can neither hold nor abuse it."""

import os
import threading

import pytest

import ffdl

pytest.importorskip("torch", reason="PyTorch is not installed")
from ffdl.torch.ps.creation_lock import creation_lock  # noqa: E402

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder in which the lock is."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / f"ffdl-{os.geteuid()}"


def test_one_at_a_time_and_nothing_stays(folder):
    inside, waits = [], threading.Event()

    def other():
        waits.set()
        with creation_lock("a/b"):
            inside.append("other")

    with creation_lock("a/b"):
        thread = threading.Thread(target=other)
        thread.start()
        assert waits.wait(60)
        inside.append("this")
        with creation_lock("c"):  # that of another server
            inside.append("another server")
    thread.join(60)
    assert inside == ["this", "another server", "other"]
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_is_not_followed(folder, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    folder.mkdir(mode=0o700)
    (folder / "a.server-lock").symlink_to(victim)
    with pytest.raises(ffdl.InvalidArgument, match="a.server-lock.*symbolic link"), creation_lock("a"):
        pass
    assert victim.read_text() == "kept"


def test_a_link_in_place_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ffdl.InvalidArgument, match="symbolic link"), creation_lock("a"):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_others_write_to_is_refused(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ffdl.InvalidArgument, match="other users may write"), creation_lock("a"):
        pass


def test_a_temporary_folder_without_a_sticky_bit_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(ffdl.InvalidArgument, match="sticky bit"), creation_lock("a"):
        pass


def test_a_temporary_folder_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(ffdl.Unavailable, match="No such file.*set TMPDIR"), creation_lock("a"):
        pass


@as_root
def test_the_folder_of_another_user_is_refused(folder):
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(ffdl.InvalidArgument, match=f"user {NOBODY}"), creation_lock("a"):
        pass


@as_root
def test_the_file_of_another_user_is_refused(folder):
    folder.mkdir(mode=0o700)
    (folder / "a.server-lock").touch()
    os.chown(folder / "a.server-lock", NOBODY, NOBODY)
    with pytest.raises(ffdl.InvalidArgument, match="another user"), creation_lock("a"):
        pass
