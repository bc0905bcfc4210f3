"""A server on a free port, with directories of its own, for each module of tests."""

import json
import os
import subprocess
import threading

import pytest

import xdfs

READY_SECONDS = 60


class Server:
    """`xdfs serve` as a child of the tests."""

    def __init__(self, folder, *options, port=0, name="data"):
        self.folder, self.name = folder, name
        self.files = folder / "files"
        self.files.mkdir(exist_ok=True)
        self.state = folder / "server-state"
        command = [os.environ["XDFS_BINARY"], "serve", "--json", "--listen", f"127.0.0.1:{port}"]
        command += ["--state", self.state, "--export", f"{name}={self.files}", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        # A server that says nothing must not hold up the tests.
        timer = threading.Timer(READY_SECONDS, self.process.kill)
        timer.start()
        ready = json.loads(self.process.stdout.readline() or "{}")
        timer.cancel()
        assert ready.get("event") == "ready", f"the server did not start: {ready}"
        self.address, self.host_key = ready["address"], ready["host_key"]
        self.port = int(self.address.rpartition(":")[2])

    def url(self, path=""):
        return f"xdfs://{self.address}/{self.name}/{path}#{self.host_key}"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def again(self, *options):
        """A server in the place of one that was killed."""
        return Server(self.folder, *options, port=self.port, name=self.name)


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """Keys, known servers and settings of nobody: those of the machine are not used."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        for name in ("SSH_AUTH_SOCK", "XDFS_IDENTITY", "XDFS_TOKEN", "XDFS_TOKEN_FILE", "XDFS_PASSWORD_FILE", "XDFS_CA"):
            patch.delenv(name, raising=False)
        yield home


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"), "--quiet", "--allow-anonymous", "rw")
    yield server
    server.kill()


@pytest.fixture
def fs(server):
    with xdfs.FileSystem(server.url()) as fs:
        yield fs
