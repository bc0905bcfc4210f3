"""One column of a Parquet file comes in few round trips, whatever the size of the file."""

import os

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
#: Requests beyond those for the footer, each of which the server can answer without another.
REQUESTS_MAX = 4


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
