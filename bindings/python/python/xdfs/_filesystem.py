"""A server's files: blocking calls."""

from __future__ import annotations

import functools
import os
import stat as _stat
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _xdfs
from ._file import RemoteFile, buffered, split_mode

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: Called with the bytes so far and those in all, which are None as long as they are not known.
Progress = Callable[[int, Optional[int]], object]

_TYPES = {
    1: ("file", _stat.S_IFREG),
    2: ("directory", _stat.S_IFDIR),
    4: ("link", _stat.S_IFLNK),
    5: ("fifo", _stat.S_IFIFO),
    6: ("socket", _stat.S_IFSOCK),
    7: ("character device", _stat.S_IFCHR),
    8: ("block device", _stat.S_IFBLK),
}

#: How long a lost server is tried again, in seconds.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Stat:
    """What a server tells of a name. A field is None where the server does not tell it."""

    name: str
    #: "file", "directory", "link", "fifo", "socket", "character device", "block device" or "other".
    type: str
    #: Type and permissions, as ``os.stat_result.st_mode``.
    mode: Optional[int]
    size: Optional[int]
    mtime_ns: Optional[int]
    atime_ns: Optional[int]
    nlink: Optional[int]
    inode: Optional[int]
    uid: Optional[int]
    gid: Optional[int]
    #: Where a symbolic link leads.
    target: Optional[str]

    @property
    def mtime(self) -> Optional[float]:
        """The modification time in seconds since 1970."""
        return None if self.mtime_ns is None else self.mtime_ns / 1e9

    def is_file(self) -> bool:
        return self.type == "file"

    def is_dir(self) -> bool:
        return self.type == "directory"

    def is_symlink(self) -> bool:
        return self.type == "link"


@dataclass(frozen=True)
class Space:
    """Bytes of a file system."""

    total: int
    free: int
    #: What this user may still take.
    available: int


def _stat_of(name: str, told: _xdfs.Attributes) -> Stat:
    kind, mode, size, mtime, atime, nlink, inode, uid, gid, target = told
    word, bits = _TYPES.get(kind, ("other", 0))
    return Stat(
        name=name,
        type=word,
        mode=None if mode is None else mode | bits,
        size=size,
        mtime_ns=mtime,
        atime_ns=atime,
        nlink=nlink,
        inode=inode,
        uid=uid,
        gid=gid,
        target=None if target is None else os.fsdecode(target),
    )


class FileSystem:
    """The files below a URL, over one session with its server.

    ``url`` is ``xdfs://[user@]host[:port][/EXPORT[/path]][#SHA256:key]``, ``ssh://[user@]host[:port]/path`` for a
    server that ssh starts, or ``NAME:path`` with a server of ``~/.config/xdfs/config``. Keys, known servers and the environment (``XDFS_TOKEN``, ``XDFS_IDENTITY``,
    ``XDFS_PASSWORD_FILE``, ``XDFS_CA``) are those of the ``xdfs`` command; nobody is asked for anything.
    The connection is made with the first call, and again after a loss, which calls wait out for at most
    ``timeout`` seconds.

    Paths are below the URL, as they are: nothing in them is decoded. A FileSystem can be used by many threads,
    pickled, and used after a fork.
    """

    def __init__(
        self,
        url: Union[str, bytes],
        *,
        identity: Optional[PathLike] = None,
        password_file: Optional[PathLike] = None,
        ca: Optional[PathLike] = None,
        state: Optional[PathLike] = None,
        channels: Optional[int] = None,
        protection: Optional[str] = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.url, self._top = _xdfs.parse(os.fsencode(url))
        files = {"identity": identity, "password_file": password_file, "ca": ca, "state": state}
        self._options: dict[str, Any] = {name: file and os.fsdecode(file) for name, file in files.items()}
        self._options.update(channels=channels, protection=protection, timeout=float(timeout))
        self._lock = threading.Lock()
        self._connected: Optional[_xdfs.Server] = None
        _alive.add(self)

    @property
    def server(self) -> _xdfs.Server:
        """The session, which is made if there is none."""
        with self._lock:
            if self._connected is None:
                self._connected = _xdfs.Server.connect(os.fsencode(self.url), **self._options)
            return self._connected

    def __repr__(self) -> str:
        return f"<xdfs.FileSystem {self.url}{os.fsdecode(self._top)}>"

    def __reduce__(self) -> Any:
        return _restored, (self.url, self._top, self._options)

    def __enter__(self) -> FileSystem:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session. Another call makes a new one."""
        with self._lock:
            server, self._connected = self._connected, None
        if server is not None:
            server.close()

    def _forked(self) -> None:
        # The threads of the session are in the parent alone. It is not closed here: its sockets are shared.
        _abandoned.append(self._connected)
        self._lock, self._connected = threading.Lock(), None

    def wire(self, path: PathLike = "") -> bytes:
        """The name of a path on the server: EXPORT/path."""
        raw = os.fsencode(path)
        if raw.startswith((b"xdfs://", b"ssh://")):
            server, name = _xdfs.parse(raw)
            if server != self.url:
                raise ValueError(f"{os.fsdecode(raw)}: this is not on {self.url}")
            return name
        names = [name for name in raw.split(b"/") if name not in (b"", b".")]
        return b"/".join([self._top, *names] if self._top else names)

    # Files

    def open(
        self,
        path: PathLike,
        mode: str = "rb",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
        *,
        permissions: int = 0o666,
    ) -> Any:
        """Opens a file, as ``open`` of the standard library does. Its ``raw`` (``buffer.raw`` of text) is a
        RemoteFile, which has more: sync, read_ranges, write_at, lock."""
        how, text = split_mode(mode)
        if not text and (encoding or errors or newline):
            raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
        name = self.wire(path)
        raw = RemoteFile(self.server.open(name, how, permissions), os.fsdecode(path), how)
        return buffered(raw, text, buffering, encoding, errors, newline)

    def read_bytes(self, path: PathLike, offset: int = 0, length: Optional[int] = None) -> bytes:
        """The content of a file, or a range of it; shorter at the end of the file."""
        return self.read_many([(path, offset, length)])[0]

    def read_many(self, ranges: Sequence[tuple[PathLike, int, Optional[int]]]) -> list[bytes]:
        """Ranges of files, each a path, an offset, and a length or None for the rest: all on their way at a
        time, so that they cost about one round trip together."""
        results = self.read_many_results(ranges)
        for result in results:
            if isinstance(result, OSError):
                raise result
        return results  # type: ignore[return-value]

    def read_many_results(
        self, ranges: Sequence[tuple[PathLike, int, Optional[int]]]
    ) -> list[Union[bytes, OSError]]:
        """The same; what a range failed with is its result."""
        return self.server.read_many([(self.wire(path), offset, length) for path, offset, length in ranges])

    def write_bytes(self, path: PathLike, data: bytes, *, overwrite: bool = True) -> None:
        """Writes a file that appears complete, or not at all."""
        self.server.put_bytes(self.wire(path), bytes(data), not overwrite)

    def get(
        self,
        path: PathLike,
        local: PathLike,
        *,
        overwrite: bool = True,
        durable: bool = False,
        progress: Optional[Progress] = None,
    ) -> int:
        """Downloads a file over all channels, and returns its length. It appears complete or not at all; an
        interrupted download is continued by the next one. Ctrl-C, and an exception of ``progress``, stop it."""
        return self.server.get(self.wire(path), os.fsdecode(local), not overwrite, durable, progress)

    def put(
        self,
        local: PathLike,
        path: PathLike,
        *,
        overwrite: bool = True,
        durable: bool = False,
        progress: Optional[Progress] = None,
    ) -> int:
        """Uploads a file, as :meth:`get` downloads one."""
        return self.server.put(os.fsdecode(local), self.wire(path), not overwrite, durable, progress)

    def hash(self, path: PathLike) -> str:
        """The BLAKE3 hash of a file, as its server reads it."""
        return self.server.hash(self.wire(path))

    # Names

    def stat(self, path: PathLike = "") -> Stat:
        """What the server tells of a name; of a symbolic link, what it tells of the link."""
        return _stat_of(os.fsdecode(path), self.server.stat(self.wire(path)))

    def ls(self, path: PathLike = "") -> list[Stat]:
        """The entries of a directory, by name; of the server itself its exports."""
        entries = [_stat_of(os.fsdecode(name), told) for name, told in self.server.list(self.wire(path))]
        return sorted(entries, key=lambda entry: entry.name)

    def walk(self, path: PathLike = "") -> Iterator[tuple[str, list[Stat], list[Stat]]]:
        """Each directory from here down, with its directories and everything else in it."""
        top = os.fsdecode(path)
        entries = self.ls(path)
        directories = [entry for entry in entries if entry.is_dir()]
        yield top, directories, [entry for entry in entries if not entry.is_dir()]
        for entry in directories:
            yield from self.walk(f"{top}/{entry.name}" if top else entry.name)

    def exists(self, path: PathLike) -> bool:
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_dir(self, path: PathLike) -> bool:
        try:
            return self.stat(path).is_dir()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def mkdir(self, path: PathLike, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a directory."""
        name = self.wire(path)
        try:
            self.server.make_directory(name, mode, False)
        except FileExistsError:
            if not exist_ok or not self.is_dir(path):
                raise
        except FileNotFoundError:
            if not parents:
                raise
            self.server.make_directory(name, mode, True)

    def rmdir(self, path: PathLike) -> None:
        """Removes an empty directory."""
        self.server.remove_directory(self.wire(path))

    def remove(self, path: PathLike) -> None:
        """Removes a name that is no directory."""
        self.server.remove(self.wire(path))

    def rmtree(self, path: PathLike) -> None:
        """Removes a directory and everything in it. Links are removed, not followed."""
        top = os.fsdecode(path)
        for entry in self.ls(path):
            below = f"{top}/{entry.name}"
            if entry.is_dir():
                self.rmtree(below)
            else:
                self.remove(below)
        self.rmdir(path)

    def rename(self, path: PathLike, to: PathLike, *, overwrite: bool = True) -> None:
        """Renames a file or directory within its export."""
        (export, _, name), (other, _, target) = self.wire(path).partition(b"/"), self.wire(to).partition(b"/")
        if export != other:
            raise OSError(18, "another export is another file system", os.fsdecode(path), None, os.fsdecode(to))
        self.server.rename(export, name, target, not overwrite)

    def symlink(self, path: PathLike, target: PathLike) -> None:
        """Makes the symbolic link ``path``, which leads to ``target``."""
        self.server.symlink(self.wire(path), os.fsencode(target))

    def chmod(self, path: PathLike, mode: int) -> None:
        self.server.set_mode(self.wire(path), mode & 0o7777)

    def utime(self, path: PathLike, mtime_ns: Optional[int] = None) -> None:
        """Sets the modification time; without one, the server's present time."""
        self.server.set_modified(self.wire(path), mtime_ns)

    def space(self, path: PathLike = "") -> Space:
        """The space of the file system that holds a path."""
        _, total, free, available = self.server.space(self.wire(path))
        return Space(total, free, available)


_alive: weakref.WeakSet[FileSystem] = weakref.WeakSet()
_abandoned: list[Optional[_xdfs.Server]] = []


def _after_fork() -> None:
    for filesystem in list(_alive):
        filesystem._forked()
    _shared.cache_clear()


os.register_at_fork(after_in_child=_after_fork)


def _restored(url: str, top: bytes, options: dict[str, Any]) -> FileSystem:
    filesystem = FileSystem(url, **options)
    filesystem._top = top
    return filesystem


@functools.lru_cache(maxsize=16)
def _shared(url: str, options: tuple[tuple[str, Any], ...]) -> FileSystem:
    # Its paths are those on the server, as `open` has them.
    return _restored(url, b"", dict(options))


def open(
    url: Union[str, bytes],
    mode: str = "rb",
    buffering: int = -1,
    encoding: Optional[str] = None,
    errors: Optional[str] = None,
    newline: Optional[str] = None,
    **options: Any,
) -> Any:
    """Opens the file of a URL. ``options`` are those of :class:`FileSystem`; files of the same server share its
    session."""
    server, name = _xdfs.parse(os.fsencode(url))
    filesystem = _shared(server, tuple(sorted(options.items())))
    return filesystem.open(name, mode, buffering, encoding, errors, newline)
