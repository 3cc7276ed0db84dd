"""A job script run as Slurm runs it, on this machine alone: what would begin ranks is a stand-in
(`ringside.check.standin`) that says what it was asked for."""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ringside import processes
from ringside.check import standin
from ringside.check.slurm import Job
from ringside.check.trial import MARK, left_behind

LIMIT = 40.0  # seconds for a script, whose program takes a third of one
TO_END = 2.0  # seconds for what came after the program to write its last lines, and to be ended


@dataclass(frozen=True)
class Ran:
    """What became of a script: its exit `status` (None: it did not end in time); what was begun in
    it, in order (`said`: name, words and step of each), and whether that was still
    `running` when the script ended; the names of the files with the program's output (`outputs`),
    and what else the script `printed`."""

    status: int | None
    said: tuple[dict, ...]
    running: bool
    outputs: tuple[str, ...]
    printed: str

    def calls(self, name: str) -> list[dict]:
        """The calls of one stand-in."""
        return [one for one in self.said if one["name"] == name]


@functools.lru_cache(maxsize=8)  # several rules look at one run
def run(script: str, options: tuple[tuple[str, str], ...], status: int) -> Ran:
    """Run the script in a folder that is empty but for the program, `./ring`, which ends with this
    exit status. `options`: those of its `slurm.Job`."""
    job = Job(dict(options))
    with tempfile.TemporaryDirectory(prefix="ringside-job-") as name:
        folder = Path(name)
        for part in ("bin", "home", "work", "spool"):
            (folder / part).mkdir()
        (folder / "options").write_text(json.dumps(dict(options)))
        (folder / "status").write_text(str(status))
        (folder / "said").touch()
        _put_stand_ins(folder)
        exit_status, running = _run(script, job, folder)
        said = _said(folder)
        files = {
            str(path.relative_to(folder / "work")): path.read_text(errors="replace")
            for path in sorted((folder / "work").rglob("*"))
            if path.is_file() and path.name != standin.PROGRAM
        }
        outputs = tuple(file for file, text in files.items() if standin.OUTPUT in text)
        text = "\n".join(files.values()).replace(standin.OUTPUT, "").strip()
        calls = tuple(one for one in said if one["name"] != "ended")
        return Ran(exit_status, calls, running, outputs, text[-500:].replace(name, ""))


def _put_stand_ins(folder: Path) -> None:
    for name in standin.NAMES:
        path = folder / ("work" if name == standin.PROGRAM else "bin") / name
        command = [sys.executable, "-P", "-m", standin.__name__, str(folder), name]
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        path.chmod(0o700)
    # A login shell makes its PATH anew, and may bring a module of the machine's own.
    lines = f"unset -f module 2>/dev/null\nPATH={shlex.quote(_path(folder))}\n"
    (folder / "home" / ".profile").write_text(lines)


def _path(folder: Path) -> str:
    return f"{folder / 'bin'}:{os.environ.get('PATH', os.defpath)}"


def _run(script: str, job: Job, folder: Path) -> tuple[int | None, bool]:
    work, spooled = folder / "work", folder / "spool" / "slurm_script"
    spooled.write_text(script)
    spooled.chmod(0o700)
    environment = job.environment() | {
        "PATH": _path(folder),
        "HOME": str(folder / "home"),
        "USER": "student",
        "TMPDIR": str(folder / "home"),
        "SLURM_SUBMIT_DIR": str(work),
        MARK: folder.name,
    }

    def opened(name: str):  # beyond the folder of the trial nothing is written
        path = work / name
        return open(path if path.parent == work else folder / "nowhere", "a")

    errors = job.file("error" if "error" in job.options else "output")
    try:
        with opened(job.file()) as out, opened(errors) as err:
            try:
                process = subprocess.Popen(
                    [spooled],
                    cwd=work,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:  # its interpreter
                out.write(f"{script.splitlines()[0]}: {error.strerror}")
                return 127, False
            status = process.wait(LIMIT)
        if not _is_ended(folder):
            return status, bool(left_behind(folder.name))
        _wait_for(folder.name)
        return status, False
    except subprocess.TimeoutExpired:
        return None, False
    finally:
        _wait_for(folder.name, processes.kill)


def _wait_for(mark: str, meanwhile=lambda left: None) -> None:
    """Until nothing of the script is left, but not for long."""
    until = time.monotonic() + TO_END
    while (left := left_behind(mark)) and time.monotonic() < until:
        meanwhile(left)
        time.sleep(0.02)


def _is_ended(folder: Path) -> bool:
    """Whether each program that was begun has ended."""
    said = [one["name"] for one in _said(folder)]
    return said.count("ended") == said.count(standin.PROGRAM) > 0


def _said(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "said").read_text().splitlines()]
