"""The annotations of the package hold."""

import subprocess
import sys

FLAGS = ["--strict", "--no-warn-return-any", "--allow-subclassing-any", "--ignore-missing-imports"]


def test_the_package_is_typed(tmp_path):
    command = [sys.executable, "-m", "mypy", *FLAGS, "--cache-dir", str(tmp_path), "-p", "xdfs"]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
