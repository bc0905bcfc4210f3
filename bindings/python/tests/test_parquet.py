"""One column of a Parquet file comes in few round trips, whatever the size of the file."""

import os
import queue
import socket
import threading
import time

import fsspec
import fsspec.parquet
import numpy
import pyarrow
import pyarrow.parquet
import pytest

from xdfs.fsspec import XdfsFileSystem

#: About the length of the file; `xtask long python` says more.
BYTES = int(os.environ.get("XDFS_PARQUET_BYTES", 32 << 20))
#: Of random numbers, which nothing compresses.
COLUMNS = 12
ROW_GROUPS = 16
#: Requests beyond those for the footer, each of which the server can answer without another; and round trips.
REQUESTS_MAX = 4
#: Seconds that the relay holds every byte back, each way: a round trip is far longer than what is computed.
DELAY = 0.1


class Counting:
    """The session of a file system; notes each request."""

    def __init__(self, server):
        self._server, self.requests = server, []

    def __getattr__(self, name):
        request = getattr(self._server, name)

        def noted(*arguments):
            self.requests.append(name)
            return request(*arguments)

        return noted


@pytest.fixture
def table(server):
    rows = BYTES // (8 * COLUMNS)
    random = numpy.random.default_rng(1)
    table = pyarrow.table({f"c{number}": random.random(rows) for number in range(COLUMNS)})
    path = server.files / "large.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=-(-rows // ROW_GROUPS), use_dictionary=False)
    assert path.stat().st_size > 0.95 * BYTES
    yield table
    path.unlink()


def test_a_column_of_a_large_file_comes_in_few_requests(server, table):
    options = XdfsFileSystem._get_kwargs_from_urls(server.url())
    fs = fsspec.filesystem("xdfs", skip_instance_cache=True, **options)
    path = "/data/large.parquet"
    counting = fs.files._connected = Counting(fs.files.server)
    # The footer: how long the file is, and its end.
    footer = fs.cat_file(path, start=fs.sizes([path])[0] - 1_000_000)
    assert footer.endswith(b"PAR1")
    footer_requests = len(counting.requests)
    counting.requests.clear()
    with fsspec.parquet.open_parquet_file(path, fs=fs, columns=["c5"], engine="pyarrow") as file:
        column = pyarrow.parquet.read_table(file, columns=["c5"])
    assert column["c5"].equals(table["c5"])
    assert len(counting.requests) - footer_requests <= REQUESTS_MAX, counting.requests
    fs.files.close()


class Relay:
    """Passes connections on to a server, every byte so much later."""

    def __init__(self, server):
        self.target = ("127.0.0.1", server.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            for one, other in [(near, far), (far, near)]:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pieces = queue.Queue(4096)
                threading.Thread(target=self._take, args=(one, pieces), daemon=True).start()
                threading.Thread(target=self._give, args=(other, pieces), daemon=True).start()

    @staticmethod
    def _take(source, pieces):
        data = b"more"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + DELAY, data))

    @staticmethod
    def _give(target, pieces):
        while True:
            due, data = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    return target.shutdown(socket.SHUT_WR)
                target.sendall(data)
            except OSError:
                return

    def close(self):
        self.listener.close()


def round_trip():
    """What a message and its echo take through such a relay: the middle one of some."""
    echo = socket.create_server(("127.0.0.1", 0))
    relay = Relay(type("Server", (), {"port": echo.getsockname()[1]}))

    def answer():
        connection, _ = echo.accept()
        while message := connection.recv(64):
            connection.sendall(message)

    threading.Thread(target=answer, daemon=True).start()
    times = []
    with socket.create_connection(("127.0.0.1", relay.port)) as connection:
        for _ in range(5):
            began = time.monotonic()
            connection.sendall(b"message")
            assert connection.recv(64) == b"message"
            times.append(time.monotonic() - began)
    relay.close()
    echo.close()
    return sorted(times)[2]


def seconds(url, table):
    """What the footer alone takes in a new session, and the column with its footer in another one, at best."""
    return [min(times) for times in zip(*(seconds_once(url, table) for _ in range(3)))]


def seconds_once(url, table):
    path = "/data/large.parquet"
    taken = []
    for whole in [False, True]:
        options = XdfsFileSystem._get_kwargs_from_urls(url)
        fs = fsspec.filesystem("xdfs", skip_instance_cache=True, **options)
        assert fs.exists("/data")
        began = time.monotonic()
        if whole:
            with fsspec.parquet.open_parquet_file(path, fs=fs, columns=["c5"], engine="pyarrow") as file:
                assert pyarrow.parquet.read_table(file, columns=["c5"])["c5"].equals(table["c5"])
        else:
            assert fs.cat_file(path, start=fs.sizes([path])[0] - 1_000_000).endswith(b"PAR1")
        taken.append(time.monotonic() - began)
        fs.files.close()
    return taken


def test_a_column_of_a_large_file_takes_few_round_trips_beyond_its_footer(server, table, capsys):
    relay, trip = Relay(server), round_trip()
    assert trip >= 2 * DELAY
    # Without the relay: what the bytes themselves take, and what is computed.
    near_footer, near = seconds(server.url(), table)
    url = server.url().replace(server.address, f"127.0.0.1:{relay.port}")
    far_footer, far = seconds(url, table)
    relay.close()
    found = ((far - far_footer) - (near - near_footer)) / trip
    met = "met" if found <= REQUESTS_MAX else "MISSED"
    with capsys.disabled():
        print(f"\na column of {BYTES} bytes, beyond its footer, round trip {trip * 1000:.1f} ms:", end=" ")
        print(f"goal {REQUESTS_MAX}, found {found:.2f}, {met}")
    assert found <= REQUESTS_MAX
