"""Open files in the form of the standard library: RawFile of ``io``, buffers and text around it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._xdfs import RawFile

#: Bytes that the buffers of an open file hold, unless ``buffering`` says otherwise: four of the largest
#: calls. What is read in order is read ahead below them.
BUFFER_BYTES = 1 << 20


class RemoteFile(io.RawIOBase):
    """A remote file without a buffer: each read and write is at least one call."""

    def __init__(self, raw: RawFile, name: str, how: str) -> None:
        super().__init__()
        self._raw = raw
        self.name = name
        self.mode = how + "b"

    def readable(self) -> bool:
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        return self.mode != "rb"

    def seekable(self) -> bool:
        return True

    def _must(self, possible: bool, what: str) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not possible:
            raise io.UnsupportedOperation(f"{self.name}: opened with mode '{self.mode}', which is not for {what}")

    def readinto(self, buffer: Any) -> int:
        self._must(self.readable(), "reading")
        view = memoryview(buffer).cast("B")
        data = self._raw.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        self._must(self.readable(), "reading")
        # The rest in one allocation, and a look whether the file has grown meanwhile.
        rest = max(self._raw.length() - self.tell(), 0)
        parts = []
        while part := self._raw.read(max(rest, BUFFER_BYTES)):
            parts.append(part)
            rest -= len(part)
        return b"".join(parts)

    def write(self, data: Any) -> int:
        self._must(self.writable(), "writing")
        return self._raw.write(bytes(data))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._must(True, "")
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self.seek(0, io.SEEK_CUR)

    def truncate(self, size: Optional[int] = None) -> int:
        self._must(self.writable(), "writing")
        size = self.tell() if size is None else size
        self._raw.truncate(size)
        return size

    def flush(self) -> None:
        if not self.closed and self.writable():
            self._raw.flush()

    def sync(self, data_only: bool = False) -> None:
        """Waits until what was written is on stable storage, as ``os.fsync`` does."""
        self._must(True, "")
        self._raw.sync(data_only)

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Reads ranges, each an offset and a length, with few round trips. The position stays; a range that
        reaches behind the end of the file is shorter."""
        self._must(self.readable(), "reading")
        return self._raw.read_ranges(list(ranges))

    def read_at(self, offset: int, length: int) -> bytes:
        """Reads one range. The position stays."""
        return self.read_ranges([(offset, length)])[0]

    def write_at(self, offset: int, data: Any) -> None:
        """Writes all of ``data`` at ``offset``, and waits until others see it. The position stays."""
        self._must(self.writable(), "writing")
        self._raw.write_at(bytes(data), offset)

    def lock(self, exclusive: bool = True, timeout: float = 0.0) -> None:
        """Locks the whole file (flock); BlockingIOError if others hold it for ``timeout`` seconds."""
        self._must(True, "")
        self._raw.lock(exclusive, timeout)

    def unlock(self) -> None:
        """Ends the lock."""
        self._must(True, "")
        self._raw.unlock()

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
        finally:
            self._raw.close()


def split_mode(mode: str) -> tuple[str, bool]:
    """The mode without ``b`` and ``t``, and whether it is one of text."""
    how = mode.replace("b", "").replace("t", "")
    plain = how.replace("+", "")
    if len(set(mode)) != len(mode) or ("b" in mode and "t" in mode) or plain not in ("r", "w", "x", "a"):
        raise ValueError(f"invalid mode: {mode!r}")
    return plain + "+" * ("+" in how), "b" not in mode


def buffered(
    raw: RemoteFile,
    text: bool,
    buffering: int = -1,
    encoding: Optional[str] = None,
    errors: Optional[str] = None,
    newline: Optional[str] = None,
) -> Any:
    """Buffers and text around a file, as ``open`` of the standard library puts them."""
    if buffering == 0:
        if text:
            raise ValueError("can't have unbuffered text I/O")
        return raw
    size = buffering if buffering > 1 else BUFFER_BYTES
    file: Any
    if raw.readable() and raw.writable():
        file = io.BufferedRandom(raw, size)
    elif raw.writable():
        file = io.BufferedWriter(raw, size)
    else:
        file = io.BufferedReader(raw, size)
    if not text:
        return file
    return io.TextIOWrapper(file, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
