"""A submission judged where it can do no harm: `python -m ringside.check.sealed HIDDEN`, as the
first process of namespaces of its own (`grade` starts it so, by util-linux's `unshare`).

There is no network but a loopback of its own, no other process, nothing on the disk can be
written, HIDDEN (the folder of all submissions) is empty, and files go to memory that goes with it.
Takes the task as JSON on standard input, gives the verdict as JSON on standard output.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

PROCESSES = 200  # how many there may be at once
MEMORY = 3 << 30  # bytes that all of them may hold
LIMIT = 150.0  # seconds for all trials of a submission
LOOK = 0.05
NOT_JUDGED = "could be checked"  # no rule of an exercise: it says nothing of the function

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME, MS_BIND = 32, 1024, 2048, 4096
MS_REC, MS_PRIVATE, MS_RELATIME = 16384, 1 << 18, 1 << 21
_FLAGS = {
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "noatime": MS_NOATIME,
    "nodiratime": MS_NODIRATIME,
    "relatime": MS_RELATIME,
}
PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS = 24, 28, 38
NO_ROOT = 0b11  # SECBIT_NOROOT, and locked: user 0 is nobody special
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Close everything off, judge, and watch over it."""
    task = json.load(sys.stdin)
    _close_files(Path(sys.argv[1]))
    _open_loopback()
    if task is None:  # a question whether all this is allowed here
        print(json.dumps({"sealed": True}))
        return
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(ours)
        _give_up_rights()
        _judge(task, theirs)
    os.close(theirs)
    print(json.dumps(_watch(ours)))


def _checked(done: int, what: str) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    _checked(_libc.mount(*texts, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def _close_files(hidden: Path) -> None:
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    mounts = [line.split()[1::2][:2] for line in Path("/proc/mounts").read_text().splitlines()]
    for target, options in mounts:
        target = target.encode().decode("unicode_escape")
        kept = sum(_FLAGS.get(option, 0) for option in options.split(","))
        try:
            _mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)
        except OSError:
            if target == "/":
                raise
    for path, size in ((str(hidden), "1m"), ("/dev/shm", "768m")):
        _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size}")
    room = Path("/dev/shm/files")
    room.mkdir()
    os.environ |= dict.fromkeys(("TMPDIR", "HOME", "IPYTHONDIR"), str(room))
    os.chdir(room)


def _open_loopback() -> None:
    """mpiexec talks to its ranks over it."""
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, get_flags, name))
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def _give_up_rights() -> None:
    """In these namespaces we are root, who could undo it all, or look into other processes."""
    for number in range(64):
        _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    _checked(_libc.prctl(PR_SET_SECUREBITS, NO_ROOT, 0, 0, 0), "secure bits")
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, bytes(24)), "capabilities")
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def _judge(task: dict, to: int) -> None:
    """In a child: the verdict into the pipe; the ranks do not inherit it."""
    from ringside.check import verdict

    # What a hostile cell prints has no way to our standard output.
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    try:
        said = verdict.verdict_on(task["exercise"], task["cell"], task["seed"])
    except BaseException as error:
        said = {"rule": NOT_JUDGED, "ranks": 0, "message": f"{type(error).__name__}: {error}"}
    os.write(to, json.dumps(said).encode())
    os._exit(0)


def _watch(pipe: int) -> dict:
    """The worker's verdict, or what it did that ended it. Whatever still runs goes with us."""
    begun, said = time.monotonic(), b""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        if poll.poll(1000 * LOOK):
            part = os.read(pipe, 1 << 20)
            said += part
            if not part:
                break
        if reason := _too_much(begun):
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return {"rule": "keeps within its limits", "ranks": 0, "message": reason}
        _reap()
    try:
        return json.loads(said)
    except ValueError:
        message = "it ended the process that was checking it"
        return {"rule": "leaves other processes alone", "ranks": 0, "message": message}


def _reap() -> None:
    """Those whose parents have ended are ours; of the worker's end its pipe tells."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _too_much(begun: float) -> str:
    if time.monotonic() - begun > LIMIT:
        return f"its trials took more than {LIMIT:.0f} s"
    processes, memory = 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            processes += 1
            with contextlib.suppress(OSError):
                counts = Path(entry.path, "statm").read_text().split()
                memory += (int(counts[1]) - int(counts[2])) * page
    if processes > PROCESSES:
        return f"it had more than {PROCESSES} processes at once"
    if memory > MEMORY:
        return f"it held more than {MEMORY >> 30} GB of memory"
    return ""


if __name__ == "__main__":
    main()
