"""Calls on names, whole files, and the FileSystem as an object of Python."""

import errno
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest

import xdfs


def test_names_are_made_listed_renamed_and_removed(fs, server):
    fs.mkdir("a/b/c", parents=True)
    fs.mkdir("a/b/c", parents=True, exist_ok=True)
    fs.write_bytes("a/file", b"12345")
    fs.symlink("a/link", "file")
    told = {entry.name: entry for entry in fs.ls("a")}
    assert sorted(told) == ["b", "file", "link"]
    assert told["b"].is_dir() and told["file"].is_file() and told["link"].is_symlink()
    assert (told["file"].size, told["link"].target) == (5, "file")
    fs.chmod("a/file", 0o640)
    fs.utime("a/file", 1_600_000_000_123_456_789)
    here, there = os.stat(server.files / "a/file"), fs.stat("a/file")
    assert (there.mode, there.mtime_ns, there.inode) == (here.st_mode, here.st_mtime_ns, there.inode)
    assert here.st_mtime_ns == 1_600_000_000_123_456_789
    fs.rename("a/file", "a/b/moved")
    assert not fs.exists("a/file") and fs.read_bytes("a/b/moved") == b"12345"
    before = time.time()
    fs.write_bytes("a/other", b"")
    assert before - 1 < fs.stat("a/other").mtime < time.time() + 1
    with pytest.raises(FileExistsError):
        fs.rename("a/other", "a/b/moved", overwrite=False)
    assert [(top, len(below), len(rest)) for top, below, rest in fs.walk("a")] == [
        ("a", 1, 2),
        ("a/b", 1, 1),
        ("a/b/c", 0, 0),
    ]
    fs.rmtree("a")
    assert not fs.exists("a") and list(server.files.glob("a")) == []


def test_names_are_bytes_and_may_be_anything(fs, server):
    for name in ["gr\u00fcn", "100%25 #1?", os.fsdecode(b"\xff\xfe")]:
        fs.write_bytes(name, b"x")
        assert name in [entry.name for entry in fs.ls()]
        assert (server.files / name).read_bytes() == b"x"
        fs.remove(name)


def test_the_server_itself_lists_its_exports(server):
    with xdfs.FileSystem(f"xdfs://{server.address}#{server.host_key}") as top:
        assert [entry.name for entry in top.ls()] == ["data"]
        top.write_bytes("data/file", b"x")
        assert top.stat("data/file").size == 1
        with pytest.raises(OSError) as failed:
            top.rename("data/file", "other/file")
        assert failed.value.errno == errno.EXDEV


def test_files_move_whole_with_progress(fs, server, tmp_path):
    data = os.urandom(5_000_000)
    (tmp_path / "up").write_bytes(data)
    told = []
    assert fs.put(tmp_path / "up", "moved", progress=lambda *so_far: told.append(so_far)) == len(data)
    assert told[-1] == (len(data), len(data)) and told == sorted(told)
    assert (server.files / "moved").read_bytes() == data
    assert fs.get("moved", tmp_path / "down", durable=True) == len(data)
    assert (tmp_path / "down").read_bytes() == data
    with pytest.raises(FileExistsError):
        fs.put(tmp_path / "up", "moved", overwrite=False)
    with pytest.raises(FileNotFoundError):
        fs.get("none", tmp_path / "none")
    assert fs.hash("moved") == fs.hash("moved") and len(fs.hash("moved")) == 64


def test_an_exception_of_progress_stops_the_transfer(server, tmp_path):
    class Enough(Exception):
        pass

    def progress(done, total):
        raise Enough

    with open(tmp_path / "large", "wb") as file:
        file.truncate(2 << 30)
    with xdfs.FileSystem(server.url()) as fs:
        with pytest.raises(Enough):
            fs.put(tmp_path / "large", "large", progress=progress)
        assert not fs.exists("large")


def test_many_ranges_are_read_at_once(fs):
    data = os.urandom(3_000_000)
    fs.write_bytes("ranges", data)
    ranges = [("ranges", start, 10_000) for start in range(0, len(data), 25_000)]
    assert fs.read_many(ranges) == [data[start : start + length] for _, start, length in ranges]
    assert fs.read_many([("ranges", 5, None), ("ranges", 0, 0)]) == [data[5:], b""]
    assert fs.read_many([("ranges", len(data) - 2, 100), ("ranges", len(data) + 2, 5)]) == [data[-2:], b""]
    results = fs.read_many_results([("ranges", 0, 2), ("none", 0, 2)])
    assert results[0] == data[:2] and isinstance(results[1], FileNotFoundError)
    assert results[1].filename == "data/none"


def test_it_is_pickled_and_used_by_threads(fs, server):
    fs.write_bytes("shared", b"content")
    again = pickle.loads(pickle.dumps(fs))
    assert again.read_bytes("shared") == b"content"
    failed = []

    def read():
        try:
            for _ in range(20):
                assert again.read_bytes("shared") == b"content"
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed
    again.close()


FORK = """
import errno, gc, os, signal, sys, traceback, xdfs
for module in sys.argv[2:]:
    __import__(module)
if "fsspec" in sys.modules:
    # Only fsspec's cache holds this one, and clears it in the child before any hook of ours runs.
    sys.modules["fsspec"].core.url_to_fs(sys.argv[1])[0].ls("/data")
fs = xdfs.FileSystem(sys.argv[1])
fs.write_bytes("forked", b"content")
file = fs.open("forked", "r+b")
child = os.fork()
if child == 0:
    signal.alarm(30)
    try:
        assert fs.read_bytes("forked") == b"content"
        # None of these waits for the threads of the parent.
        for use in (file.read, file.close):
            try:
                use()
                raise AssertionError(use)
            except OSError as error:
                assert error.errno == errno.EBADF
        file = use = None
        gc.collect()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert file.read() == b"content"
file.close()
fs.close()
"""


@pytest.mark.parametrize("modules", [[], ["pyarrow.dataset", "pandas", "zarr", "fsspec.asyn"]], ids=["alone", "beside"])
def test_a_forked_child_has_a_session_of_its_own(server, modules):
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", FORK, server.url(), *modules], check=True, timeout=60)
