"""The controller process: ipyparallel's hub and schedulers, and the keeper of the engines.

Started by `ringside.start` as `python -m ringside.controller`. It starts the engines before it
imports anything heavy, restarts them when one dies, and leaves when the last lease is gone.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path

from ringside import launch, lease

TICK = 50  # milliseconds between two looks at the engines
BEAT = 100  # milliseconds between two heartbeats; the first one completes a registration
# Deaths are seen from the processes. A rank that gets no core for a while misses beats and lives.
MISSED_BEATS = 36_000
ENGINE_PORTS = ("registration", "control", "mux", "task", "iopub", "hb_ping", "hb_pong")
CLIENT_PORTS = ("control", "mux", "task", "iopub", "notification", "broadcast")
GRACE = 1.0  # seconds between asking the engines to end and ending them
START_LIMIT = 120  # seconds after which engines that never registered are given up


def connection() -> tuple[dict, dict]:
    """Connection information for engines and for clients, on free loopback ports."""
    count = len(ENGINE_PORTS) + 2 + len(CLIENT_PORTS)
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    common = {
        "interface": "tcp://127.0.0.1",
        "location": "127.0.0.1",
        "ssh": "",
        "key": secrets.token_hex(32),
        "curve_serverkey": None,
        "pack": "json",
        "unpack": "json",
        "signature_scheme": "hmac-sha256",
    }
    engine = dict(zip(ENGINE_PORTS, ports, strict=False)) | {"broadcast": ports[7:9]}
    client = dict(zip(CLIENT_PORTS, ports[9:], strict=True)) | {"task_scheme": "leastload"}
    client["registration"] = engine["registration"]
    return common | engine, common | client


class Keeper:
    """Keeps n engines alive: starts them, sees them register, notices deaths, ends them."""

    def __init__(self, run: Path, plan: dict):
        self.run = run
        self.n = plan["n"]
        self.cwd = plan["cwd"]
        self.engine_info, self.client_info = connection()
        self.env = launch.environment(run, lease.profile_of(run), self.engine_info)
        self.env["RINGSIDE_MPIEXEC"] = plan["mpiexec"]
        self.generation = 0
        self.state = "starting"
        self.error = ""
        self.deaths = []
        self.mpiexec = None
        self.pids = {}
        self.files = set()
        self.watched = []  # file descriptors of the ranks' processes
        self.gone = []  # ranks in the order of their deaths
        self.started = 0.0
        self.listening = False
        self.hub = None
        self.loop = None
        self._checked = 0.0

    def launch(self) -> None:
        """Start a generation of engines."""
        self.generation += 1
        self.state = "starting"
        self.started = time.monotonic()
        self.pids, self.files, self.gone = {}, set(), []
        self.mpiexec = launch.start(self.n, self.run, self.env, self.cwd)
        self.publish()

    def status(self) -> dict:
        """What clients want to know; fits JSON."""
        return {
            "state": self.state,
            "n": self.n,
            "generation": self.generation,
            "error": self.error,
            "deaths": self.deaths,
            "pids": {str(rank): pid for rank, pid in self.pids.items()},
            "controller": os.getpid(),
            "mpiexec": self.mpiexec.pid if self.mpiexec else None,
            "uuids": {str(e.id): e.uuid for e in self.hub.engines.values()} if self.hub else {},
            "listening": self.listening,
        }

    def publish(self) -> None:
        """Write cluster.json, readable by its owner alone as it holds the key."""
        path = self.run / "cluster.json"
        new = path.with_suffix(".new")
        with open(new, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump(
                self.status() | {"client": self.client_info, "files": sorted(self.files)}, file
            )
        new.replace(path)

    def tick(self) -> None:
        """Look at the engines and, once a second, at the leases."""
        if self.state in ("starting", "ready"):
            self._look()
        now = time.monotonic()
        if now - self._checked >= 1:
            self._checked = now
            if self.state == "ready":
                self.files |= launch.shared_memory(list(self.pids.values()))
            if not lease.leases(self.run) and lease.start_lock(self.run).acquire():
                # The lock is kept to the end: nobody attaches to a cluster that is leaving.
                self.leave()

    def _look(self) -> None:
        if self.state == "starting":
            self.pids = launch.pids(self.run)
            self.files |= launch.shared_memory(list(self.pids.values()))
            if len(self.pids) == self.n and all(r in self.hub.engines for r in range(self.n)):
                self.state = "ready"
                self._watch_deaths()
                self.publish()
        ended = self.mpiexec.poll() is not None
        dead = self.gone or [r for r, pid in sorted(self.pids.items()) if not launch.alive(pid)]
        if ended or dead:
            self._died(dead)
        elif self.state == "starting" and time.monotonic() - self.started > START_LIMIT:
            self.end_engines(grace=0)
            self._fail(f"the engines did not register within {START_LIMIT} s")

    def _watch_deaths(self) -> None:
        """Learn the order in which ranks end: mpiexec soon takes the others down as well."""
        if not hasattr(os, "pidfd_open"):
            return
        for rank, pid in sorted(self.pids.items()):
            try:
                watched = os.pidfd_open(pid)
            except OSError:  # gone already, or an old kernel: the next look will find out
                continue
            self.watched.append(watched)
            self.loop.add_handler(watched, partial(self._ended, rank), self.loop.READ)

    def _ended(self, rank: int, watched: int, _) -> None:
        self.loop.remove_handler(watched)
        self.gone.append(rank)

    def _forget_deaths(self) -> None:
        for watched in self.watched:
            self.loop.remove_handler(watched)
            os.close(watched)
        self.watched = []

    def _died(self, dead: list[int]) -> None:
        """A rank ended: say who, fail what is outstanding, start again."""
        returncode = self.mpiexec.poll()
        at_start = self.state == "starting"
        uuids = [engine.uuid for engine in self.hub.engines.values()]
        self.end_engines(grace=0)
        if at_start:
            self._fail("the engines ended while they were starting")
            return
        self.deaths.append(
            launch.death(self.run, dead, returncode)
            | {"generation": self.generation, "uuids": uuids}
        )
        self.launch()

    def _wait_for_mpiexec(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.mpiexec.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def _fail(self, reason: str) -> None:
        self.error = reason
        log = launch.log_tail(self.run)
        self.state = "failed"
        self.error = f"{reason}. Their log ends with:\n{log}" if log else f"{reason}; no log"
        self.publish()

    def end_engines(self, grace: float) -> None:
        """End this generation: ask, wait for `grace` seconds, insist; remove what it left."""
        self._forget_deaths()
        if self.hub is not None:
            pending = [engine.id for engine in self.hub.incoming_registrations.values()]
            for rank in [*self.hub.engines, *pending]:
                self.hub.unregister_engine([], {"content": {"id": rank}})
        self.pids |= launch.pids(self.run)
        processes = list(self.pids.values())
        self.files |= launch.shared_memory(processes)
        if grace:
            launch.terminate(processes)
            deadline = time.monotonic() + grace
            while time.monotonic() < deadline and any(map(launch.alive, processes)):
                time.sleep(0.02)
        launch.kill([pid for pid in processes if launch.alive(pid)])
        # mpiexec removes its own files when it sees its ranks gone.
        self._wait_for_mpiexec(GRACE)
        if self.mpiexec.poll() is None:
            launch.kill_group(self.mpiexec.pid)
            self.mpiexec.wait()
        launch.remove(self.files)

    def restart(self, n: int) -> None:
        """Replace the engines by n new ones."""
        self.end_engines(grace=GRACE)
        self.n = n
        self.deaths, self.error = [], ""
        self.launch()

    def leave(self) -> None:
        """End everything, remove the files, stop the loop."""
        if self.state == "leaving":
            return
        self.state = "leaving"
        self.end_engines(grace=GRACE)
        self.loop.call_later(0.05, self.loop.stop)

    def answer(self, content: dict) -> dict:
        """Serve a client's request: status, restart (with n) or stop."""
        action = content["action"]
        if action == "restart":
            self.restart(int(content["n"]))
        elif action == "stop":
            self.leave()
        elif action != "status":
            raise ValueError(f"unknown request {action!r}")
        return self.status()


def serve(keeper: Keeper) -> None:
    """Run ipyparallel's controller, single-threaded, with the keeper in its loop."""
    from ipyparallel.controller import app as stock
    from tornado.ioloop import PeriodicCallback
    from traitlets.config import Config

    class Controller(stock.IPController):
        def init_hub(self):
            super().init_hub()
            # A thread does: it sleeps most of the time, and a process costs 40 MB.
            process = self.heartmonitor_process
            self.heartmonitor_process = threading.Thread(
                target=process._target, kwargs=process._kwargs, daemon=True
            )
            self.hub.engine_state_file = ""

        def cleanup_connection_files(self):
            """There are none: cluster.json holds the connection information."""

    config = Config()
    config.HeartMonitor.period = BEAT
    config.HeartMonitor.max_heartmonitor_misses = MISSED_BEATS
    config.Session.key = keeper.engine_info["key"].encode()
    config.IPController.use_threads = True
    config.IPController.location = "127.0.0.1"
    config.Application.log_level = "WARN"
    controller = Controller(config=config, write_connection_files=False)
    controller.engine_info = keeper.engine_info
    controller.client_info = keeper.client_info
    controller.initialize([f"--profile-dir={lease.profile_of(keeper.run)}"])

    hub = keeper.hub = controller.hub
    keeper.loop = controller.loop

    def answer(idents, message):
        try:
            content = {"status": "ok"} | keeper.answer(message["content"])
        except Exception as error:  # the asker must get an answer
            content = {"status": "error", "error": f"{type(error).__name__}: {error}"}
        hub.session.send(
            hub.query, "ringside_reply", content=content, parent=message, ident=idents[0]
        )

    hub.query_handlers["ringside_request"] = answer
    # Made before the loop runs, so that a signal that ends the loop also ends the engines.
    PeriodicCallback(keeper.tick, TICK).start()
    keeper.listening = True
    keeper.publish()
    controller.start()


def main() -> None:
    """Run the controller until it is stopped or nobody holds a lease."""
    run, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
    lock = lease.Lock(lease.controller_lock(run))
    if not lock.acquire(wait=2):
        sys.exit("another controller runs in this directory")
    keeper = Keeper(run, plan)
    try:
        keeper.launch()
        serve(keeper)
    finally:
        if keeper.state != "failed" and keeper.mpiexec and keeper.mpiexec.poll() is None:
            keeper.end_engines(grace=0)
        if keeper.state == "leaving":
            lease.clear(run)


if __name__ == "__main__":
    main()
