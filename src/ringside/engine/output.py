"""What a rank prints, in the cell that printed it: C's output, too, and not more than one reads."""

import codecs
import contextlib
import ctypes
import fcntl
import os
import select
import sys
import termios
import threading

from ipykernel.iostream import OutStream

from ringside.errors import PREFIX

LIBC = ctypes.CDLL(None)
BY_LINES = 1  # _IOLBF in <stdio.h>
MOST_LINES = 1000  # of a cell, that each rank shows


class Output(OutStream):
    """ipykernel's own, which shows some time later what C has printed; asked to, at once.

    `room`: how many lines a cell may still print; None: any number. `dropped`: how many it had no
    room for.
    """

    room: int | None = None
    dropped = 0

    def __init__(self, *args, **kwargs):
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._reading = threading.Lock()
        super().__init__(*args, **kwargs, watchfd="force")  # also where pytest runs

    def _watch_pipe_fd(self):
        pipe = select.poll()
        pipe.register(self._fid, select.POLLIN)
        while self._should_watch:
            [(_, seen)] = pipe.poll()
            if not seen & select.POLLIN:  # C has closed its end
                return
            self.catch_up()

    def write(self, string: str) -> int | None:
        """See `OutStream.write`; what there is no room for is counted."""
        if self.room is None or not isinstance(string, str):
            return super().write(string)
        lines = string.splitlines(keepends=True)
        shown = "".join(lines[: self.room])
        self.dropped += "".join(lines[self.room :]).count("\n")
        self.room -= shown.count("\n")
        return super().write(shown) if shown else len(string)

    def catch_up(self):
        """Take what C has printed until now, if the watching thread has not."""
        with self._reading:
            there = bytearray(4)
            fcntl.ioctl(self._fid, termios.FIONREAD, there)
            if printed := os.read(self._fid, int.from_bytes(there, sys.byteorder)):
                self.write(self._decode(printed))
                with contextlib.suppress(OSError):  # the log is full, say
                    os.write(self._original_stdstream_copy, printed)


def _c_stdout():
    return ctypes.c_void_p.in_dll(LIBC, "stdout")


def by_lines() -> None:
    """C's standard output is a pipe here, of which C would keep 4 kB back: let each line go."""
    LIBC.setvbuf(_c_stdout(), None, BY_LINES, ctypes.c_size_t(0))


def catch_up() -> None:
    """Show what C has printed until now; what it keeps of a line, too."""
    LIBC.fflush(_c_stdout())
    for stream in _streams():
        stream.catch_up()


def _streams() -> list[Output]:
    return [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, Output)]


def limit() -> None:
    """A cell begins: of what it prints only the first lines are shown."""
    for stream in _streams():
        stream.room, stream.dropped = MOST_LINES, 0


def unlimit() -> None:
    """Its code has ended: say how many lines were not shown."""
    catch_up()
    for stream in _streams():
        stream.room = None
        if stream.dropped:
            stream.write(
                f"{PREFIX} {stream.dropped:,} more lines of this rank are not shown. Print "
                "less, or on one rank only: if rank == 0: print(...)\n"
            )
