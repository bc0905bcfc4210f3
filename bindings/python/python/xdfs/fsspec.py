"""The file system of ``xdfs://`` URLs for fsspec, and so for pandas, pyarrow, zarr, dask and others."""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
from typing import Any, Optional

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.utils import isfilelike, stringify_path

from ._filesystem import TIMEOUT, FileSystem, Stat

_URL = re.compile(
    r"xdfs://(?:(?P<user>[^@/]*)@)?(?P<host>\[[^\]]*\]|[^:/@#]*)(?::(?P<port>[0-9]+))?(?P<path>/.*|)", re.DOTALL
)
_KEY = re.compile(r"#(SHA256:[A-Za-z0-9+/]{43})$")


class XdfsFileSystem(AbstractFileSystem):
    """Files on an xdfs server. Paths are ``/EXPORT/path``, as they are: nothing in them is decoded.

    ``host``, ``port``, ``username`` and ``host_key`` are those of the URL
    ``xdfs://[username@]host[:port]/EXPORT/path[#host_key]``; everything else is as for
    :class:`xdfs.FileSystem`. Directories that are missing above a file that is written are made, unless
    ``auto_mkdir`` is False.
    """

    protocol = "xdfs"
    root_marker = "/"

    def __init__(
        self,
        host: str,
        port: Optional[int] = None,
        username: Optional[str] = None,
        host_key: Optional[str] = None,
        identity: Optional[str] = None,
        password_file: Optional[str] = None,
        ca: Optional[str] = None,
        state: Optional[str] = None,
        channels: Optional[int] = None,
        protection: Optional[str] = None,
        timeout: float = TIMEOUT,
        auto_mkdir: bool = True,
        **kwargs: Any,
    ) -> None:
        if self._cached:
            return
        super().__init__(**kwargs)
        self.auto_mkdir = auto_mkdir
        self._place = "xdfs://" + (f"{username}@" if username else "") + host + (f":{port}" if port else "")
        self.files = FileSystem(
            self._place + "/" + (f"#{host_key}" if host_key else ""),
            identity=identity,
            password_file=password_file,
            ca=ca,
            state=state,
            channels=channels,
            protection=protection,
            timeout=timeout,
        )

    # URLs

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if match := _URL.fullmatch(path):
            path = _KEY.sub("", match["path"])
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(urlpath: str) -> dict[str, Any]:
        match = _URL.fullmatch(urlpath)
        if match is None:
            return {}
        key = _KEY.search(match["path"])
        told = {
            "host": match["host"],
            "port": match["port"] and int(match["port"]),
            "username": match["user"],
            "host_key": key and key[1],
        }
        return {name: value for name, value in told.items() if value is not None}

    def unstrip_protocol(self, name: str) -> str:
        return self._place + self._strip_protocol(name)

    @property
    def fsid(self) -> str:
        return self._place

    # Names

    def _info(self, path: str, stat: Stat) -> dict[str, Any]:
        return {
            "name": path,
            "size": stat.size if stat.is_file() else 0,
            "type": stat.type,
            "mode": stat.mode,
            "mtime": stat.mtime,
            "uid": stat.uid,
            "gid": stat.gid,
            "ino": stat.inode,
            "nlink": stat.nlink,
            "islink": stat.is_symlink(),
            "destination": stat.target,
        }

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path == "/":
            return {"name": "/", "size": 0, "type": "directory"}
        return self._info(path, self.files.stat(path))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        top = "" if path == "/" else path
        try:
            entries = [self._info(f"{top}/{stat.name}", stat) for stat in self.files.ls(path)]
        except NotADirectoryError:
            entries = [self.info(path)]
        return entries if detail else [entry["name"] for entry in entries]

    def modified(self, path: str) -> Any:
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self.files.mkdir(self._strip_protocol(path), parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.files.mkdir(self._strip_protocol(path), parents=True, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.files.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.files.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        for one in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            if self.isdir(one):
                if recursive:
                    self.rmdir(one)
                else:
                    raise IsADirectoryError(21, "it is a directory; say recursive=True", one)
            else:
                self.rm_file(one)

    def mv_file(self, path1: str, path2: str) -> None:
        self.files.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> None:
        plain = isinstance(path1, str) and isinstance(path2, str) and maxdepth is None and not path2.endswith("/")
        if not plain or "*" in path1 or "?" in path1 or "[" in path1 or self.isdir(path2):
            return super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
        self.mv_file(path1, path2)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")
        else:
            self.files.utime(path)

    # Whole files, and ranges

    def _with_parents(self, path: str, write: Any) -> Any:
        """Writes below directories that are made if they are missing."""
        try:
            return write()
        except FileNotFoundError:
            parent = self._parent(path)
            if not self.auto_mkdir or parent in ("", "/") or self.isdir(parent):
                raise
            self.makedirs(parent, exist_ok=True)
            return write()

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        data = bytes(value)
        self._with_parents(path, lambda: self.files.write_bytes(path, data, overwrite=mode != "create"))

    def _range(self, path: str, start: Optional[int], end: Optional[int]) -> tuple[str, int, Optional[int]]:
        start, path = start or 0, self._strip_protocol(path)
        if start < 0 or (end is not None and end < 0):
            size = self.info(path)["size"]
            start = max(size + start, 0) if start < 0 else start
            end = size + end if end is not None and end < 0 else end
        return path, start, None if end is None else max(end - start, 0)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        return self.files.read_many([self._range(path, start, end)])[0]

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **kwargs)
        paths = [one for one in paths if not recursive or not self.isdir(one)]
        contents = self.cat_ranges(paths, None, None, on_error="raise" if on_error == "raise" else "return")
        pairs = zip(paths, contents)
        return {one: data for one, data in pairs if on_error != "omit" or not isinstance(data, Exception)}

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: Optional[int] = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Ranges of files, all on their way at a time: about one round trip for all of them."""
        many = len(paths)
        starts = starts if isinstance(starts, list) else [starts] * many
        ends = ends if isinstance(ends, list) else [ends] * many
        if not len(starts) == len(ends) == many:
            raise ValueError("paths, starts and ends are of different lengths")
        ranges = [self._range(*one) for one in zip(paths, starts, ends)]
        results = self.files.read_many_results(ranges)
        failed = [result for result in results if isinstance(result, OSError)]
        if failed and on_error == "raise":
            raise failed[0]
        return list(results)

    def get_file(
        self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if outfile is not None or isfilelike(lpath):
            with self.open(rpath, "rb") as source:
                shutil.copyfileobj(source, lpath if outfile is None else outfile, 1 << 20)
            return
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        if parent := os.path.dirname(os.fspath(lpath)):
            os.makedirs(parent, exist_ok=True)
        self.files.get(rpath, lpath, progress=_progress(callback))

    def put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        progress = _progress(callback)
        self._with_parents(
            rpath, lambda: self.files.put(lpath, rpath, overwrite=mode != "create", progress=progress)
        )

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)

    # Open files

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_options: Optional[dict[str, Any]] = None,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if mode == "rb" and (cache_options or kwargs.get("cache_type")):
            return XdfsFile(self, path, mode, block_size or "default", True, cache_options=cache_options, **kwargs)
        if mode == "rb":
            return self.files.open(path, "rb")
        if autocommit:
            return self._with_parents(path, lambda: self.files.open(path, mode))
        if mode not in ("wb", "xb"):
            raise NotImplementedError(f"{path}: mode '{mode}' in a transaction; open it outside of one")
        staged = f"{self._parent(path).rstrip('/')}/.{secrets.token_hex(8)}.tmp"
        raw = self._with_parents(path, lambda: self.files.open(staged, "xb", buffering=0))
        return _Staged(self, raw, staged, path, keep_existing=mode == "xb")


class XdfsFile(AbstractBufferedFile):
    """A file that is read through one of fsspec's caches, where ``cache_type`` asks for one."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.cat_file(self.path, start, end)


class _Staged(io.BufferedWriter):
    """A file of a transaction: it gets its name when the transaction ends."""

    def __init__(self, fs: XdfsFileSystem, raw: Any, staged: str, path: str, keep_existing: bool) -> None:
        super().__init__(raw, 1 << 20)
        self.fs, self.path, self._staged, self._keep_existing = fs, path, staged, keep_existing

    def commit(self) -> None:
        self.fs.files.rename(self._staged, self.path, overwrite=not self._keep_existing)

    def discard(self) -> None:
        self.close()
        self.fs.files.remove(self._staged)


def _progress(callback: Any) -> Any:
    if callback is DEFAULT_CALLBACK:
        return None

    def tell(done: int, total: Optional[int]) -> None:
        if total is not None and callback.size != total:
            callback.set_size(total)
        callback.absolute_update(done)

    return tell
