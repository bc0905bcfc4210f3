"""The examples of docs/python.md, in their order, as one program."""

import os
import pathlib
import re

import xdfs

PAGE = pathlib.Path(__file__).parents[3] / "docs/python.md"


def test_the_examples_run(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local.bin").write_bytes(os.urandom(100_000))
    with xdfs.FileSystem(server.url()) as fs:
        fs.mkdir("examples")
    scope = {"URL": server.url("examples").replace("/#", "#")}
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) >= 8
    for text in examples:
        exec(compile(text, str(PAGE), "exec"), scope)
    assert (tmp_path / "back.bin").read_bytes() == (tmp_path / "local.bin").read_bytes()
