"""Remote files for asyncio.

Blocking calls run in a bounded pool of threads. Reads that a program starts together, without waiting for
one another, go to the server together: a thousand of them are one call of the pool and about one round
trip.
"""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional, Union

from . import _filesystem
from ._file import RemoteFile, split_mode
from ._filesystem import PathLike, Progress, Space, Stat

__all__ = ["File", "FileSystem"]

#: Threads of a FileSystem, and so calls that are under way at a time. Reads count together.
THREADS = 16


class _Together:
    """Requests that are made in the same turn of the event loop are carried out by one call."""

    def __init__(self, run: Callable[..., Any], carry_out: Callable[[list[Any]], list[Any]]) -> None:
        self._run, self._carry_out = run, carry_out
        self._waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def request(self, what: Any) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._start, loop)
        self._waiting.append((what, answer))
        return await answer

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        # The loop itself keeps only weak references to tasks.
        task = loop.create_task(self._finish(waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, waiting: list[tuple[Any, asyncio.Future[Any]]]) -> None:
        try:
            results = await self._run(self._carry_out, [what for what, _ in waiting])
        except BaseException as error:
            results = [error] * len(waiting)
        for (_, answer), result in zip(waiting, results):
            if answer.done():
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)


class File:
    """A remote file that is open. Offsets are explicit: there is no position that tasks would share."""

    def __init__(self, raw: RemoteFile, run: Callable[..., Any]) -> None:
        self._raw, self._run = raw, run
        self._reads = _Together(run, raw.read_ranges)

    @property
    def name(self) -> str:
        return self._raw.name

    async def __aenter__(self) -> File:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def read_at(self, offset: int, length: int) -> bytes:
        """Reads a range; shorter at the end of the file."""
        return await self._reads.request((offset, length))

    async def write_at(self, offset: int, data: bytes) -> None:
        """Writes all of ``data``, and waits until others see it."""
        await self._run(self._raw.write_at, offset, data)

    async def append(self, data: bytes) -> None:
        """Writes at the end of a file that was opened with mode ``a``."""
        if not self._raw.mode.startswith("a"):
            raise io.UnsupportedOperation(f"{self.name}: append needs mode 'ab', not '{self._raw.mode}'")
        await self._run(self._raw.write, data)

    async def size(self) -> int:
        return await self._run(self._raw._raw.length)

    async def truncate(self, size: int) -> None:
        await self._run(self._raw.truncate, size)

    async def sync(self, data_only: bool = False) -> None:
        """Waits until what was written is on stable storage."""
        await self._run(self._raw.sync, data_only)

    async def close(self) -> None:
        await self._run(self._raw.close)


class FileSystem:
    """As :class:`xdfs.FileSystem`, with its options, for asyncio."""

    def __init__(self, url: Union[str, bytes], *, threads: int = THREADS, **options: Any) -> None:
        self.blocking = _filesystem.FileSystem(url, **options)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="xdfs-aio")
        self._reads = _Together(self._run, self.blocking.read_many_results)

    async def _run(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        call = functools.partial(work, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    async def __aenter__(self) -> FileSystem:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the session, once the calls that are under way have ended."""
        await self._run(self.blocking.close)
        self._pool.shutdown(wait=False)

    async def open(self, path: PathLike, mode: str = "rb", *, permissions: int = 0o666) -> File:
        if split_mode(mode)[1]:
            raise ValueError(f"mode {mode!r}: files of asyncio are binary")
        raw = await self._run(self.blocking.open, path, mode, 0, permissions=permissions)
        return File(raw, self._run)

    async def read_bytes(self, path: PathLike, offset: int = 0, length: Optional[int] = None) -> bytes:
        """The content of a file, or a range of it; shorter at the end of the file."""
        return await self._reads.request((path, offset, length))

    async def write_bytes(self, path: PathLike, data: bytes, *, overwrite: bool = True) -> None:
        await self._run(self.blocking.write_bytes, path, data, overwrite=overwrite)

    async def get(
        self,
        path: PathLike,
        local: PathLike,
        *,
        overwrite: bool = True,
        durable: bool = False,
        progress: Optional[Progress] = None,
    ) -> int:
        """Downloads a file. ``progress`` is called by another thread."""
        options = {"overwrite": overwrite, "durable": durable, "progress": progress}
        return await self._run(self.blocking.get, path, local, **options)

    async def put(
        self,
        local: PathLike,
        path: PathLike,
        *,
        overwrite: bool = True,
        durable: bool = False,
        progress: Optional[Progress] = None,
    ) -> int:
        """Uploads a file. ``progress`` is called by another thread."""
        options = {"overwrite": overwrite, "durable": durable, "progress": progress}
        return await self._run(self.blocking.put, local, path, **options)

    async def stat(self, path: PathLike = "") -> Stat:
        return await self._run(self.blocking.stat, path)

    async def ls(self, path: PathLike = "") -> list[Stat]:
        return await self._run(self.blocking.ls, path)

    async def exists(self, path: PathLike) -> bool:
        return await self._run(self.blocking.exists, path)

    async def mkdir(self, path: PathLike, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        await self._run(self.blocking.mkdir, path, mode, parents=parents, exist_ok=exist_ok)

    async def rmdir(self, path: PathLike) -> None:
        await self._run(self.blocking.rmdir, path)

    async def remove(self, path: PathLike) -> None:
        await self._run(self.blocking.remove, path)

    async def rmtree(self, path: PathLike) -> None:
        await self._run(self.blocking.rmtree, path)

    async def rename(self, path: PathLike, to: PathLike, *, overwrite: bool = True) -> None:
        await self._run(self.blocking.rename, path, to, overwrite=overwrite)

    async def space(self, path: PathLike = "") -> Space:
        return await self._run(self.blocking.space, path)
