"""The controller process: ipyparallel's own, made small, which ends with its cluster's owner.

Of ipyparallel's parts four are replaced, as it has no option for them: the heart monitor is a
thread, since it sleeps most of the time and a process costs 40 MB; it says which hearts are silent
long before it gives one up; connection files appear whole, readable by their owner alone, and once
all ports are bound, since engines and the client use them as soon as they are there; and the
process looks at its owner's lock once a second.
"""

import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from ipyparallel.controller import app as stock
from ipyparallel.controller import heartmonitor
from traitlets import Any, Dict, Integer
from traitlets.config import Config

from ringside.cluster import files, jobs

BEAT = 100  # milliseconds between two heartbeats; the first one completes a registration
# Deaths are seen from the processes. A rank that gets no core for a while misses beats and lives.
MISSED_BEATS = 36_000
SILENT_BEATS = 50  # beats without an answer after which an engine counts as silent, for now


class Hearts(heartmonitor.HeartMonitor):
    """The heart monitor, which also writes into `run` which engines are silent.

    It counts its own beats, not seconds: where it got no core itself, nobody was asked. A late
    answer is one too. Hearts beat in C, whatever Python and MPI of their rank do.
    """

    run = Any()
    beats = Integer()
    answered = Dict()  # the beat at which each heart was heard last
    silent = Any(frozenset())

    def handle_pong(self, msg):
        """A heart answers."""
        self.answered[msg[0]] = self.beats
        super().handle_pong(msg)

    def beat(self):
        """Ask all hearts, and note who has not answered for a while."""
        super().beat()
        self.beats += 1
        silent = {
            heart.decode("utf8", "replace")
            for heart in self.hearts
            if self.beats - self.answered.get(heart, 0) > SILENT_BEATS
        }
        if silent != self.silent:
            with suppress(OSError):  # the cluster's files are being removed
                files.note_silent(self.run, silent)
                self.silent = silent


class Controller(stock.IPController):
    """ipyparallel's controller in one process."""

    _announced = {}  # connection information by file

    def init_hub(self):
        """Make the hub, with a thread that monitors the hearts, and does not log every miss, nor
        the greeting of the sockets by which a client hears what ranks print."""
        self.log.addFilter(lambda record: "iopub_welcome" not in record.getMessage())
        super().init_hub()
        process = self.heartmonitor_process
        heartmonitor.HeartMonitor = Hearts
        options = process._kwargs | {"log_level": "ERROR", "run": run_of(self)}
        self.heartmonitor_process = threading.Thread(
            target=process._target, kwargs=options, daemon=True
        )
        self.hub.engine_state_file = ""

    def save_connection_dict(self, fname, cdict):
        """Keep connection information until `announce`: a port may yet prove to be taken."""
        self._announced = self._announced | {fname: cdict}

    def announce(self):
        """Write connection information, whole and readable by its owner alone."""
        for fname, cdict in self._announced.items():
            path = Path(self.profile_dir.security_dir, fname)
            new = path.with_suffix(".new")
            with open(new, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                json.dump(cdict, file)
            new.replace(path)


def run_of(controller: Controller) -> Path:
    """The directory of the controller's cluster."""
    return Path(controller.profile_dir.location) / f"cluster-{controller.cluster_id}"


def end_with_owner(run: Path) -> None:
    """Once the owner is gone, however: end the ranks, remove all files, end this process."""
    while files.owned(run):
        files.note_shared_memory(run)
        time.sleep(1)
    files.end_ranks(run)
    if jobs.cancel(run):  # else Slurm has been silent: whoever starts next asks again
        files.clear(run)
    os._exit(0)


def main() -> None:
    """Run the controller until it is stopped or its owner is gone."""
    config = Config()
    config.HeartMonitor.period = BEAT
    config.HeartMonitor.max_heartmonitor_misses = MISSED_BEATS
    config.IPController.use_threads = True
    config.IPController.location = "127.0.0.1"
    config.Application.log_level = "WARN"
    controller = Controller(config=config)
    controller.initialize()
    controller.announce()
    run = run_of(controller)
    files.note_process(run, "controller")
    threading.Thread(target=end_with_owner, args=[run], daemon=True).start()
    controller.start()


if __name__ == "__main__":
    main()
