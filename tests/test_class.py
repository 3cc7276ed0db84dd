"""A class on one machine: users who share an installation, and who must not reach each other.

The users are two ids without an account. They share what users of one machine do: loopback,
/dev/shm, /proc, and the checkout, in which they cannot write.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ringside import ROOT, processes

pytestmark = pytest.mark.skipif(
    os.getuid() != 0,
    reason="to be two users takes root: sudo make test TESTARGS=tests/test_class.py",
)

VICTIM, INTRUDER = 61_001, 61_002  # no account has these ids
LIMIT = 120


def command(user: int, *words) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *map(str, words)]


def opened() -> str:
    """A script after which users may enter the folders above the checkout and its Python.

    For a mount namespace: folders above them that others may not enter give way to empty ones.
    """
    shared = [Path(sys.base_prefix).resolve(), ROOT]
    closed = [
        path
        for path in shared
        if subprocess.run(command(VICTIM, "test", "-x", path), check=False).returncode
    ]
    lines = ["set -e", "mount -t tmpfs -o mode=755 tmpfs /mnt"]
    for place, path in enumerate(closed):
        lines += [f"mkdir /mnt/{place}", f"mount --rbind {shlex.quote(str(path))} /mnt/{place}"]
    for top in sorted({path.parts[1] for path in closed}):
        lines.append(f"mount -t tmpfs -o mode={1777 if top == 'tmp' else 755} tmpfs /{top}")
    for place, path in enumerate(closed):
        name = shlex.quote(str(path))
        lines += [f"mkdir -p {name}", f"mount --rbind /mnt/{place} {name}"]
    for user in (VICTIM, INTRUDER):  # as homes are on many machines, others may look into them
        lines.append(f"install -d -m 755 -o {user} -g {user} /mnt/{user}")
    return "\n".join([*lines, "echo ready", "exec sleep infinity"])


@pytest.fixture(scope="module")
def as_user():
    """Begins a program as one of the users, in a home of the user's own."""
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", opened()], stdout=subprocess.PIPE, text=True
    )
    started = []

    def begin(user: int, *words) -> subprocess.Popen:
        environment = {
            "HOME": f"/mnt/{user}",
            "USER": str(user),
            "PATH": f"{Path(sys.prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "IPP_NONINTERACTIVE": "1",
        }
        enter = ["nsenter", "--mount", f"--target={holder.pid}", f"--wdns=/mnt/{user}"]
        process = subprocess.Popen(
            [*enter, *command(user, *words)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    try:
        assert holder.stdout.readline() == "ready\n"
        yield begin
    finally:
        for process in started:
            process.kill()
            process.communicate()
        deadline = time.monotonic() + LIMIT
        while any(map(of_users, processes.everyone())) and time.monotonic() < deadline:
            time.sleep(0.2)
        holder.kill()
        holder.communicate()


def of_users(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid in (VICTIM, INTRUDER) and processes.alive(pid)
    except OSError:
        return False


def told(process: subprocess.Popen) -> dict:
    """What the program says in its next line; its errors if it says nothing more."""
    line = process.stdout.readline()
    assert line, process.communicate(timeout=LIMIT)[1]
    return json.loads(line)


def test_a_user_has_lessons_and_ranks_from_an_installation_of_somebody_else(as_user):
    """From what root made, a user who can write nothing there has copies, ranks, and C."""
    with_lessons = as_user(VICTIM, "sh", ROOT / "copies.sh", f"/mnt/{VICTIM}/ringside")
    said, wrong = with_lessons.communicate(timeout=LIMIT)
    if (ROOT / "my-lessons" / ".new").is_dir():
        assert (said, wrong) == ("", "")
        look = as_user(VICTIM, "stat", "-c", "%a %n", "ringside", "ringside/00-the-cluster.ipynb")
        said, wrong = look.communicate(timeout=LIMIT)
        assert said.startswith("700 ringside\n") and "00-the-cluster.ipynb" in said, wrong
    else:
        assert "run: make my-lessons" in wrong
    student = as_user(VICTIM, sys.executable, ROOT / "tests" / "student.py")
    facts = told(student)
    assert not facts["writable"]
    assert facts["tripled"] == [3, 3]
    said, wrong = student.communicate(timeout=LIMIT)
    assert student.returncode == 0, wrong


def test_another_user_reaches_nothing_of_a_users_ranks(as_user):
    victim, other = (
        as_user(user, sys.executable, ROOT / "tests" / "student.py") for user in (VICTIM, INTRUDER)
    )
    facts, own = told(victim), told(other)
    assert set(facts["files"]).isdisjoint(own["files"])
    assert facts["memory"] and facts["ports"]
    intruder = as_user(INTRUDER, sys.executable, ROOT / "tests" / "intruder.py")
    reached, wrong = intruder.communicate(json.dumps(facts), timeout=LIMIT)
    assert intruder.returncode == 0, wrong
    assert json.loads(reached) == []
    for student in (victim, other):  # and their ranks are as they were
        said, wrong = student.communicate(timeout=LIMIT)
        assert student.returncode == 0, wrong
        assert json.loads(said) == {"ranks": [2, 2], "died": 0}
