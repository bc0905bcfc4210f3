"""Open files: modes, buffers, positions, and what they do when the server is lost."""

import errno
import hashlib
import io
import random

import pytest

import xdfs


def test_a_file_is_written_and_read_as_one_of_this_machine(fs, server):
    with fs.open("a.bin", "wb") as file:
        assert file.write(b"hello, ") == 7
        file.write(b"world")
    assert (server.files / "a.bin").read_bytes() == b"hello, world"
    with fs.open("a.bin") as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read(5) == b"hello"
        assert file.seek(-5, io.SEEK_END) == 7
        assert (file.read(), file.tell(), file.read()) == (b"world", 12, b"")
        buffer = bytearray(20)
        file.seek(0)
        assert file.readinto(buffer) == 12 and buffer[:12] == b"hello, world"


def test_modes_are_those_of_open(fs, server):
    with fs.open("modes", "xb") as file:
        file.write(b"123456")
    with pytest.raises(FileExistsError):
        fs.open("modes", "xb")
    with fs.open("modes", "ab") as file:
        file.write(b"78")
    with fs.open("modes", "r+b") as file:
        assert isinstance(file, io.BufferedRandom)
        file.seek(2)
        file.write(b"--")
        file.seek(0)
        assert file.read() == b"12--5678"
        assert file.truncate(4) == 4
    assert (server.files / "modes").read_bytes() == b"12--"
    with fs.open("modes", "w", newline="\n") as file:
        file.write("gr\u00fcn\nblau\n")
    with fs.open("modes", "rt") as file:
        assert list(file) == ["gr\u00fcn\n", "blau\n"]
    with fs.open("modes", "rb", buffering=0) as raw, pytest.raises(io.UnsupportedOperation):
        raw.write(b"x")
    for mode in ("", "rw", "rbt", "q", "rr"):
        with pytest.raises(ValueError):
            fs.open("modes", mode)


def test_a_file_of_many_blocks_arrives_in_both_directions(fs, server):
    data = random.Random(1).randbytes(9_000_001)
    with fs.open("large", "wb") as file:
        view = memoryview(data)
        for start in range(0, len(data), 700_001):
            file.write(view[start : start + 700_001])
        file.flush()
        file.raw.sync()
    assert hashlib.sha256((server.files / "large").read_bytes()).digest() == hashlib.sha256(data).digest()
    with fs.open("large") as file:
        assert file.read() == data
        assert file.raw.read_at(5_000_000, 10) == data[5_000_000:5_000_010]
        ranges = [(start, 1000) for start in range(0, len(data), 100_000)]
        assert file.raw.read_ranges(ranges) == [data[start : start + 1000] for start, _ in ranges]
        assert file.raw.read_ranges([(len(data) - 3, 10), (len(data) + 5, 10)]) == [data[-3:], b""]


def test_a_closed_file_is_not_used(fs):
    file = fs.open("closed", "wb")
    raw = file.raw
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"x")
    with pytest.raises(ValueError, match="closed"):
        raw.write_at(0, b"x")


def test_a_lock_excludes_others_until_it_ends(fs, server):
    with fs.open("locked", "wb", buffering=0) as one, xdfs.FileSystem(server.url()) as other:
        one.lock()
        with other.open("locked", "rb", buffering=0) as two:
            with pytest.raises(BlockingIOError) as refused:
                two.lock(exclusive=False)
            assert refused.value.errno == errno.EAGAIN
            one.unlock()
            two.lock(exclusive=False, timeout=10)


def test_errors_are_those_of_the_system_with_number_and_name(fs, server):
    for path, mode, kind, number in [
        ("none", "rb", FileNotFoundError, errno.ENOENT),
        ("none/below", "wb", FileNotFoundError, errno.ENOENT),
    ]:
        with pytest.raises(kind) as failed:
            fs.open(path, mode)
        assert (failed.value.errno, failed.value.filename) == (number, f"data/{path}")
        assert failed.value.strerror
    fs.mkdir("directory")
    with pytest.raises(OSError):
        fs.open("directory", "wb")
    with pytest.raises(FileExistsError):
        fs.mkdir("directory")
    fs.write_bytes("directory/file", b"")
    with pytest.raises(OSError) as failed:
        fs.rmdir("directory")
    assert failed.value.errno == errno.ENOTEMPTY
    with pytest.raises(NotADirectoryError):
        fs.ls("directory/file")


def test_open_of_a_url_shares_the_session_and_decodes_the_url(server, fs):
    fs.write_bytes("with space", b"content")
    one = xdfs.open(server.url("with%20space"))
    two = xdfs.open(server.url("with%20space"), "r")
    assert (one.read(), two.read()) == (b"content", "content")
    one.close(), two.close()


def test_a_file_survives_a_server_that_is_killed(tmp_path):
    from conftest import Server

    server = Server(tmp_path, "--quiet", "--allow-anonymous", "rw")
    with xdfs.FileSystem(server.url(), timeout=30) as fs:
        file = fs.open("log", "wb", buffering=0)
        file.write(b"first ")
        server.kill()
        server = server.again("--quiet", "--allow-anonymous", "rw")
        file.write(b"second")
        file.sync()
        file.close()
        assert (server.files / "log").read_bytes() == b"first second"
        server.kill()
        server = server.again("--quiet", "--allow-anonymous", "rw")
        assert [entry.name for entry in fs.ls()] == ["log"]
    server.kill()
