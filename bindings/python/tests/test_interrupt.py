"""Ctrl-C ends what waits, at once."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

#: A wait that is not interrupted takes as long as a lost server is waited for, or a transfer.
PROMPT_SECONDS = 5

WAITS = {
    "read": "file = fs.open('file'); stop(); file.read(10)",
    "stat": "fs.ls(); stop(); fs.stat('file')",
    "open": "fs.ls(); stop(); fs.open('file')",
    "connect": "stop(); fs.ls()",
    "get": "fs.ls(); stop(); fs.get('file', 'down')",
    "many": "fs.ls(); stop(); fs.read_many([('file', 0, 5)])",
}


def wait_until_it_is_in_the_call(process, wait):
    # A transfer that has been started is waited for by the main thread alone, and nothing tells it apart.
    until = time.monotonic() + 30
    while wait != "get" and "xdfs-call" not in names_of_threads(process):
        assert time.monotonic() < until, "the call did not begin"


def names_of_threads(process):
    names = []
    for task in pathlib.Path(f"/proc/{process}/task").glob("*/comm"):
        # A thread of an earlier call may end meanwhile.
        with contextlib.suppress(OSError):
            names.append(task.read_text().strip())
    return names


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait_for_a_server_that_does_not_answer(wait, tmp_path):
    from conftest import Server

    server = Server(tmp_path, "--quiet", "--allow-anonymous", "rw")
    (server.files / "file").write_bytes(b"0123456789")
    program = f"""
import glob, os, signal, sys, xdfs
# Whoever is started in the background of a script inherits that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
fs = xdfs.FileSystem({server.url()!r}, timeout=100)
def is_stopped(task):
    return open(task).read().rsplit(")", 1)[1].split()[0] == "T"
def stop():
    os.kill({server.process.pid}, signal.SIGSTOP)
    # Until then a thread of it may answer.
    while not all(map(is_stopped, glob.glob("/proc/{server.process.pid}/task/*/stat"))):
        pass
    print("waiting", flush=True)
try:
    {WAITS[wait]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert child.stdout.readline() == "waiting\n"
    wait_until_it_is_in_the_call(child.pid, wait)
    began = time.monotonic()
    os.kill(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert (output, child.returncode) == ("interrupted\n", 0)
    assert time.monotonic() - began < PROMPT_SECONDS
    server.kill()
