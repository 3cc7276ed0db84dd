"""The house: the package is used from its checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import ringside

PACKAGE = Path(ringside.__file__).parent


# ---- used from its checkout ----


def test_a_package_without_its_checkout_says_so(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "lib" / "python" / "ringside")
    done = subprocess.run(
        [sys.executable, "-c", "import ringside"],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "lib" / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    [said] = [line for line in done.stderr.splitlines() if line.startswith("ImportError: ")]
    assert "Ringside works from its checkout" in said
    assert "pip install --editable ." in said


def test_a_wheel_is_refused(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", tmp_path, ringside.ROOT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "pip install --editable ." in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
