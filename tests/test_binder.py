"""What Binder and conda are given: the packages of pyproject.toml, and scripts that work."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ringside import ROOT, mpi

# Packages by conda-forge's names where these differ, and what only conda has to be told.
CONDA_NAMES = {"matplotlib": "matplotlib-base"}
OF_CONDA = {"python", "c-compiler", "make", "pip"}


def bounds(text: str) -> tuple[str, str]:
    """A requirement as its name and its bounds, in one order."""
    requirement = Requirement(text)
    return requirement.name, ",".join(sorted(map(str, requirement.specifier)))


def conda() -> dict[str, str]:
    """The packages of environment.yml with their bounds."""
    text = (ROOT / "environment.yml").read_text("utf-8")
    listed = re.findall(r"^  - ([a-z].*)$", text.partition("dependencies:")[2], re.MULTILINE)
    return dict(map(bounds, listed))


def test_conda_has_the_bounds_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = project["dependency-groups"]
    wanted = [*project["project"]["dependencies"], *groups["build"], *groups["test"]]
    wanted += groups["mpich"]
    expected = {CONDA_NAMES.get(name, name): at for name, at in map(bounds, wanted)}
    expected["python"] = bounds("python" + project["project"]["requires-python"])[1]
    found = conda()
    assert expected.keys() | OF_CONDA == found.keys()
    assert {name: found[name] for name in expected} == expected


def test_binder_has_the_same_environment_and_scripts_that_can_run():
    """repo2docker reads nothing outside binder/ when that exists."""
    binder = ROOT / "binder"
    assert {path.name for path in binder.iterdir()} == {
        "apt.txt",
        "environment.yml",
        "postBuild",
        "start",
    }
    assert (binder / "environment.yml").read_text() == (ROOT / "environment.yml").read_text()
    for script in ("postBuild", "start"):
        assert os.access(binder / script, os.X_OK)
    # The last command's exit status would be the script's.
    assert "\nset -e\n" in (binder / "postBuild").read_text()


def test_the_image_that_repo2docker_would_build(tmp_path):
    """Its Dockerfile is made from binder/: conda's packages, make, postBuild, and start at last."""
    program = shutil.which("jupyter-repo2docker")
    if program is None:
        pytest.skip(
            "jupyter-repo2docker makes the Dockerfile: "
            ".venv/bin/python -m uv tool install jupyter-repo2docker"
        )
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT / "binder", copy / "binder")
    done = subprocess.run(
        [program, "--no-build", "--debug", "--user-id=1000", "--user-name=jovyan", copy],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "binder/environment.yml" in said
    assert re.search(r"apt-get install .*\bmake\b", said)
    assert "RUN ./binder/postBuild" in said
    assert 'R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in said


def test_start_becomes_the_server():
    """Its arguments, spaces and all, its exit status, and one thread in each rank."""
    words = ["sh", "-c", 'echo "$OMP_NUM_THREADS $1"; exit 7', "sh", "a b"]
    done = subprocess.run(
        [ROOT / "binder" / "start", *words], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (7, "1 a b\n")


@pytest.mark.long
def test_post_build_builds_the_kernels_or_fails(tmp_path):
    """From a clean copy, with the mpicc on the PATH as in conda's environment; and where that
    compiler fails, so does the image: no Binder comes up without kernels."""
    copy = tmp_path / "a copy"
    nothing = shutil.ignore_patterns("build", "bin", "__pycache__")
    for name in ("binder", "kernels", "scope"):
        shutil.copytree(ROOT / name, copy / name, ignore=nothing, symlinks=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, does in {"pip": "exit 0", "mpicc": f'exec "{mpi.mpicc()}" "$@"'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)

    def build():
        path = f"{programs}:{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [copy / "binder" / "postBuild"],
            cwd=copy,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    done = build()
    assert done.returncode == 0, done.stdout + done.stderr
    built = copy / "kernels" / "build" / "system"
    assert (built / "libkernels.so").exists() and (built / "libscope.so").exists()
    shutil.rmtree(built)
    (programs / "mpicc").write_text("#!/bin/sh\nexit 1\n")
    assert build().returncode != 0
    (programs / "mpicc").write_text(f'#!/bin/sh\nexec "{mpi.mpicc()}" "$@"\n')
    (programs / "pip").write_text("#!/bin/sh\nexit 1\n")
    assert build().returncode != 0
