"""Remote files and parallel transfers over xdfs.

>>> import xdfs
>>> fs = xdfs.FileSystem("xdfs://host/export")          # doctest: +SKIP
>>> with fs.open("run7/image.bin", "rb") as file:       # doctest: +SKIP
...     head = file.read(1024)

``xdfs.aio`` has the same for asyncio, ``xdfs.fsspec`` the file system of ``xdfs://`` URLs in pandas,
pyarrow, zarr and dask. docs/python.md of the project describes all of it.
"""

from ._filesystem import FileSystem, Space, Stat, open
from ._xdfs import ChangedError, CorruptedError, LoginRefusedError, NotTrustedError, __version__

__all__ = [
    "ChangedError",
    "CorruptedError",
    "FileSystem",
    "LoginRefusedError",
    "NotTrustedError",
    "Space",
    "Stat",
    "__version__",
    "open",
]
