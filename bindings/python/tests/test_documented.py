"""The examples of docs/python.md, in their order, as one program. Those of heavy packages run where
XDFS_PYTHON_HEAVY is set, as `xtask long python` does."""

import os
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs/python.md"
#: Packages of some 100 MB together, which only the long form installs.
HEAVY = ("import pandas", "import fsspec.parquet", "import numpy, zarr", "import h5py")


def examples(heavy):
    texts = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [text for text in texts if heavy or not text.startswith(HEAVY)]


@pytest.mark.parametrize("heavy", [False, pytest.param(True, marks=pytest.mark.skipif(
    not os.environ.get("XDFS_PYTHON_HEAVY"), reason="heavy packages: cargo run -p xtask -- long python"))])
def test_the_examples_run(server, tmp_path, monkeypatch, heavy):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local.bin").write_bytes(os.urandom(100_000))
    scope = {"URL": server.url(f"{'heavy' if heavy else 'light'}").replace("/#", "#")}
    import xdfs

    with xdfs.FileSystem(server.url()) as fs:
        fs.mkdir("heavy" if heavy else "light")
    texts = examples(heavy)
    assert len(texts) >= (8 if heavy else 4)
    for text in texts:
        exec(compile(text, str(PAGE), "exec"), scope)
    assert (tmp_path / "back.bin").read_bytes() == (tmp_path / "local.bin").read_bytes()
