"""The fsspec file system: fsspec's own suite against a real server, and what that leaves out."""

import pickle

import fsspec
import fsspec.tests.abstract as abstract
import pytest

from xdfs.fsspec import XdfsFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, server):
        return fsspec.filesystem("xdfs", **XdfsFileSystem._get_kwargs_from_urls(server.url()))

    @pytest.fixture
    def fs_path(self, fs):
        fs.makedirs("/data/suite")
        yield "/data/suite"
        fs.rm("/data/suite", recursive=True)

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestOurs(Fixtures):
    def test_a_url_opens_by_the_entry_point(self, server, fs):
        fs.pipe_file("/data/a/b c", b"content")
        with fsspec.open(server.url("a/b c"), "rb") as file:
            assert file.read() == b"content"
        with fsspec.open(server.url("new/file"), "wt") as file:
            file.write("text")
        found, paths = fsspec.core.url_to_fs(server.url("new/file"))
        assert found is fs and paths == "/data/new/file"
        assert fs.unstrip_protocol("/data/x") == f"xdfs://{server.address}/data/x"
        assert fs.cat("/data/new/file") == b"text"
        fs.rm(["/data/a", "/data/new"], recursive=True)

    def test_ranges_of_many_files_come_in_one_call(self, fs, fs_path):
        for number in range(5):
            fs.pipe_file(f"{fs_path}/{number}", bytes(range(100)))
        paths = [f"{fs_path}/{number}" for number in range(5)]
        assert fs.cat_ranges(paths, 10, 20) == [bytes(range(10, 20))] * 5
        assert fs.cat_ranges(paths[:3], [-5, 0, None], [None, -95, 3]) == [
            bytes(range(95, 100)),
            bytes(range(5)),
            bytes(range(3)),
        ]
        results = fs.cat_ranges([paths[0], "/data/none"], [0, 0], [1, 1])
        assert results[0] == b"\0" and isinstance(results[1], FileNotFoundError)
        with pytest.raises(FileNotFoundError):
            fs.cat_ranges(["/data/none"], [0], [1], on_error="raise")
        assert fs.cat(paths) == {path: bytes(range(100)) for path in paths}
        assert fs.cat_file(paths[0], start=98, end=500) == bytes([98, 99])

    def test_info_is_what_the_server_tells(self, fs, fs_path):
        fs.pipe_file(f"{fs_path}/file", b"12345")
        info = fs.info(f"{fs_path}/file")
        assert (info["name"], info["size"], info["type"]) == (f"{fs_path}/file", 5, "file")
        assert fs.modified(f"{fs_path}/file").timestamp() == pytest.approx(info["mtime"], abs=1e-3)
        assert fs.ls(f"{fs_path}/file") == [info]
        assert fs.find(fs_path) == [f"{fs_path}/file"] and fs.isdir("/") and fs.ls("/", detail=False) == ["/data"]
        assert fs.glob("/data/su*/f*") == [f"{fs_path}/file"]
        with pytest.raises(FileNotFoundError):
            fs.info(f"{fs_path}/none")

    def test_a_transaction_shows_all_files_or_none(self, fs, fs_path):
        with fs.transaction:
            with fs.open(f"{fs_path}/one", "wb") as file:
                file.write(b"1")
            assert not fs.exists(f"{fs_path}/one")
        assert fs.cat(f"{fs_path}/one") == b"1"
        with pytest.raises(ZeroDivisionError), fs.transaction:
            with fs.open(f"{fs_path}/two", "wb") as file:
                file.write(b"2")
            raise ZeroDivisionError
        assert fs.ls(fs_path, detail=False) == [f"{fs_path}/one"]

    def test_a_cache_of_fsspec_can_be_asked_for(self, fs, fs_path):
        fs.pipe_file(f"{fs_path}/file", bytes(range(256)) * 1000)
        with fs.open(f"{fs_path}/file", "rb", cache_type="readahead", block_size=1000) as file:
            file.seek(-6, 2)
            assert file.read() == bytes(range(250, 256))

    def test_it_is_pickled_with_its_server(self, fs, fs_path):
        fs.pipe_file(f"{fs_path}/file", b"x")
        again = pickle.loads(pickle.dumps(fs))
        assert again.cat(f"{fs_path}/file") == b"x"
        file = fs.open(f"{fs_path}/file")
        file.close()

    def test_moves_are_renames(self, fs, fs_path):
        fs.pipe_file(f"{fs_path}/directory/file", b"x")
        fs.mv(f"{fs_path}/directory", f"{fs_path}/other", recursive=True)
        assert fs.find(fs_path) == [f"{fs_path}/other/file"]
        with pytest.raises(IsADirectoryError):
            fs.rm(f"{fs_path}/other")
