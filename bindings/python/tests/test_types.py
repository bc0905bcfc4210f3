"""The annotations of the package hold. Where XDFS_PYTHON_HEAVY is set, as `xtask long python` does."""

import os
import subprocess
import sys

import pytest

FLAGS = ["--strict", "--no-warn-return-any", "--allow-subclassing-any", "--ignore-missing-imports"]


@pytest.mark.skipif(not os.environ.get("XDFS_PYTHON_HEAVY"), reason="mypy: cargo run -p xtask -- long python")
def test_the_package_is_typed(tmp_path):
    command = [sys.executable, "-m", "mypy", *FLAGS, "--cache-dir", str(tmp_path), "-p", "xdfs"]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
