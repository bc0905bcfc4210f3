"""Who logs in, and which servers are trusted: as the command does, and without a question."""

import subprocess
import os

import pytest

import xdfs


def command(*words, **more):
    return subprocess.run([os.environ["XDFS_BINARY"], *words], check=True, capture_output=True, text=True, **more).stdout


def test_a_server_that_is_not_known_is_refused_and_said_how_to_trust(server):
    url = f"xdfs://{server.address}/data"
    with pytest.raises(xdfs.NotTrustedError) as refused:
        xdfs.FileSystem(url).ls()
    assert isinstance(refused.value, PermissionError)
    assert f"xdfs trust pin {server.address} {server.host_key}" in refused.value.strerror
    command("trust", "pin", server.address, server.host_key)
    with xdfs.FileSystem(url) as fs:
        fs.ls()
    command("trust", "forget", server.address)


def test_a_key_that_is_not_the_expected_one_is_refused(server):
    wrong = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
    with pytest.raises(xdfs.NotTrustedError, match="IS NOT THE EXPECTED ONE"):
        xdfs.FileSystem(f"xdfs://{server.address}/data#{wrong}").ls()


def test_a_user_logs_in_with_the_key_that_the_command_made(tmp_path, home):
    from conftest import Server

    state = tmp_path / "server-state"
    own = command("key", "create").splitlines()[0]
    command("user", "add", "anna", "--state", state, "--key", "-", input=own + "\n")
    server = Server(tmp_path, "--quiet")
    url = server.url().replace("xdfs://", "xdfs://anna@")
    with xdfs.FileSystem(url) as fs:
        fs.write_bytes("file", b"x")
    with pytest.raises(xdfs.LoginRefusedError, match="offered: key"):
        xdfs.FileSystem(url.replace("anna@", "bob@")).ls()
    # The configuration file gives the server a name, and the user.
    settings = home / "config" / "xdfs"
    settings.mkdir(parents=True)
    text = f'[hosts.lab]\naddress = "{server.address}"\nuser = "anna"\nexport = "data"\nhost-key = "{server.host_key}"\n'
    (settings / "config").write_text(text)
    with xdfs.FileSystem("lab:") as fs:
        assert fs.read_bytes("file") == b"x"
    server.kill()


def test_what_is_no_url_or_option_is_a_value_error(server):
    for url in ["file", "ftp://host/path", "xdfs://host/a?b", "xdfs://a:b@host/data"]:
        with pytest.raises(ValueError):
            xdfs.FileSystem(url)
    for options in [{"channels": 0}, {"protection": "none"}, {"timeout": -1}, {"timeout": float("nan")}]:
        with pytest.raises(ValueError):
            xdfs.FileSystem(server.url(), **options).ls()


def test_where_nobody_listens_the_error_says_so(tmp_path):
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with pytest.raises(ConnectionRefusedError, match="is 'xdfs serve' running there"):
        xdfs.FileSystem(f"xdfs://127.0.0.1:{port}/data").ls()
