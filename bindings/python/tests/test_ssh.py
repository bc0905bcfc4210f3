"""Files of a machine on which nothing runs but sshd: ssh starts the server."""

import os
import pathlib
import subprocess

import pytest

import xdfs

#: Where Debian puts it, which is in nobody's search path but root's.
SSHD = "/usr/sbin/sshd"

CLIENT = """
Host box
 ProxyCommand {sshd} -i -f {top}/sshd_config
 IdentityFile {top}/user-key
 IdentitiesOnly yes
 UserKnownHostsFile {top}/known
 StrictHostKeyChecking accept-new
 LogLevel ERROR
"""
SERVER = """
HostKey {top}/host-key
AuthorizedKeysFile {top}/user-key.pub
StrictModes no
PasswordAuthentication no
PidFile none
UsePAM no
PermitRootLogin yes
SetEnv PATH={top}/bin:/usr/bin:/bin HOME={top}/there
"""


@pytest.fixture
def top(tmp_path, monkeypatch):
    """The machine `box`: its home is `there`, and its xdfs the one under test."""
    for key in ("host-key", "user-key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    for name, text in (("ssh_config", CLIENT), ("sshd_config", SERVER)):
        (tmp_path / name).write_text(text.format(top=tmp_path, sshd=SSHD))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/xdfs").symlink_to(os.environ["XDFS_BINARY"])
    (tmp_path / "there").mkdir()
    if os.geteuid() == 0:
        # sshd wants this directory; Debian's service makes it at boot.
        os.makedirs("/run/sshd", exist_ok=True)
    monkeypatch.setenv("XDFS_SSH", f"ssh -F {tmp_path}/ssh_config")
    return tmp_path


def children():
    """The programs that this process has started and that still run."""
    tasks = pathlib.Path("/proc/self/task")
    while True:
        try:
            found = [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]
            return [pathlib.Path(f"/proc/{child}/comm").read_text().strip() for child in found]
        except (FileNotFoundError, ProcessLookupError):
            # A thread or a program ended while this looked; the children of a thread go to another one.
            continue


def test_files_behind_ssh_are_read_and_written(top):
    before = children()
    data = os.urandom(3_000_000)
    with xdfs.FileSystem(f"ssh://box{top}/there") as fs:
        fs.write_bytes("file", data)
        assert (top / "there/file").read_bytes() == data
        assert fs.read_many([("file", 10, 5), (f"ssh://box{top}/there/file", 0, 3)]) == [data[10:15], data[:3]]
        fs.rename("file", "other")
        assert [entry.name for entry in fs.ls()] == ["other"]
        file = fs.open("other", "r+b")
        assert sorted(children()) == sorted([*before, "ssh"])
    # The file outlives the FileSystem, and ssh the file by nothing.
    assert file.read() == data
    file.seek(0)
    file.write(b"new")
    file.close()
    del file
    assert (top / "there/other").read_bytes() == b"new" + data[3:]
    assert children() == before


def test_open_and_asyncio_take_urls_of_ssh_too(top):
    import asyncio

    import xdfs.aio

    with xdfs.open(f"ssh://box{top}/there/file", "wt") as file:
        file.write("text")
    assert (top / "there/file").read_text() == "text"

    async def read():
        async with xdfs.aio.FileSystem("ssh:box:") as fs:
            return await fs.read_bytes("file")

    assert asyncio.run(read()) == b"text"


def test_what_has_no_session_is_an_error_and_ssh_asks_nobody(top, monkeypatch):
    with pytest.raises(FileNotFoundError), xdfs.FileSystem(f"ssh://box{top}/there") as fs:
        fs.read_bytes("none")
    (top / "user-key.pub").write_text("")
    with pytest.raises(xdfs.LoginRefusedError, match="ssh could not connect or log in"):
        xdfs.FileSystem(f"ssh://box{top}/there").ls()
    asked = top / "asked"
    asked.write_text('#!/bin/sh\necho "$@" > "$0.words"\nexit 255\n')
    asked.chmod(0o755)
    monkeypatch.setenv("XDFS_SSH", str(asked))
    with pytest.raises(ConnectionError):
        xdfs.FileSystem("ssh://anna@box:2222/data").ls()
    # Whether a file is there, a machine without xdfs does not tell.
    missing = top / "missing"
    missing.write_text("#!/bin/sh\nexit 127\n")
    missing.chmod(0o755)
    for ssh in [missing, top / "no-such-program"]:
        monkeypatch.setenv("XDFS_SSH", str(ssh))
        with pytest.raises(ConnectionError):
            xdfs.FileSystem("ssh://box/data").exists("there")
    words = (top / "asked.words").read_text()
    assert words == "-o BatchMode=yes -p 2222 anna@box xdfs serve --stdio\n"
    with pytest.raises(ValueError, match="xdfs:// and ssh://"):
        xdfs.FileSystem("ftp://box/data")
