"""Keeps the ranks alive: starts them through ipyparallel, sees them end, says how, starts others.

ipyparallel starts and stops controller and engines and says when mpiexec has ended. It does not
say which rank ended, or how, and starts no others; that is done here, in a thread of its own.
"""

import asyncio
import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import ipyparallel as ipp
from traitlets.config import Config

from ringside import processes
from ringside.cluster import files
from ringside.cluster.deaths import death
from ringside.cluster.jobs import Job
from ringside.cluster.launcher import ControllerLauncher, RankLauncher
from ringside.cluster.slurm import Asked, SlurmLauncher, address, call
from ringside.errors import ClusterError
from ringside.watch.waitfor import in_words

TICK = 0.03  # seconds between two looks at ranks that are starting
NEWS = 0.3  # seconds between two questions for the engines, as news sent while connecting is lost
START_LIMIT = 120.0  # seconds after which ranks that never came are given up
LISTEN = 1.0  # seconds between two looks at who is silent
SILENCE = 20.0  # seconds for which a rank of a job stays silent before its node counts as lost
LAST_WORDS = 0.05  # seconds for mpiexec to end with a rank, which tells MPI_Abort from a crash
STOP_LIMIT = 4.0
JOB_STOP_LIMIT = 30.0  # the same where Slurm has to be asked
_RANKS = "ranks"  # what ipyparallel calls the set of engines

_log = logging.getLogger("ringside.cluster")
_log.addHandler(logging.NullHandler())
_log.propagate = False
_log.setLevel(logging.CRITICAL)  # what mattered of its warnings is told by the errors


class Keeper:
    """n ranks and their controller. `state`: starting, ready, ending (what is left of ranks that
    are lost), failed (see `error`) or stopped.

    `deaths` are records of `ringside.cluster.deaths`, each with the `uuids` of the engines that
    went with it. `asked`: what to ask Slurm for; None: the ranks run on this machine. A job that
    is over is followed by another only when `restart` asks for it.
    """

    def __init__(self, run: Path, asked: Asked | None = None):
        self.run = run
        self.asked = asked
        self.n = 0
        self.state = "stopped"
        self.error = ""
        self.deaths = []
        self._client = None
        self._cluster = None
        self._watched = {}  # file descriptors of the ranks' processes: rank
        self._gone = []  # ranks in the order of their deaths
        self._forgotten = set()  # engines of earlier ranks
        self._again = False  # mpiexec ended before it had any ranks, and was run once more
        self._looking = None  # the task that waits for ranks that are starting, or listens to them
        self._over = False  # stopped, for good
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="ringside-keeper", daemon=True
        )
        self._thread.start()

    def _do(self, coroutine, limit: float):
        """Run it in the keeper's thread and wait for it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(limit)
        except TimeoutError:
            future.cancel()
            raise ClusterError(
                f"the cluster did not answer within {limit:.0f} s. End it with cluster.stop()"
            ) from None
        except KeyboardInterrupt:
            future.cancel()  # else the loop complains of it at its end
            raise

    def lives(self) -> bool:
        """Whether the controller does, and this."""
        return self.state != "stopped" and self._thread.is_alive()

    def start(self, n: int, limit: float) -> dict:
        """Start the controller and n ranks; what a client needs to connect.

        Raises ClusterError when there is no controller in time; the text ends with its log.
        """
        return self._do(self._start(n, limit), limit + STOP_LIMIT)

    def connected(self, client) -> None:
        """The client that connected: the ranks are ready when it knows all of them."""
        self._client = client

    def restart(self, n: int, limit: float) -> None:
        """Replace the ranks by n new ones; they may not be ready yet."""
        self._do(self._restart(n), limit)

    def stop(self) -> None:
        """End everything and the thread; the files stay."""
        self._over, self.state = True, "stopped"
        with suppress(ClusterError):  # what did not end in time is ended below
            self._do(self._stop(), STOP_LIMIT if self.asked is None else JOB_STOP_LIMIT)
        files.end_ranks(self.run, grace=0)
        if self._cluster is not None and self._cluster.controller is not None:
            processes.kill([self._cluster.controller.pid])
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1)
        if not self._thread.is_alive():
            self._loop.close()

    @property
    def job(self) -> Job | None:
        """The job in which the ranks run, or will, as Slurm saw it last."""
        return getattr(self._cluster and self._cluster.engines.get(_RANKS), "job", None)

    def _become(self, state: str) -> None:
        """Another state, unless it has been stopped, which is for good."""
        if not self._over:
            self.state = state

    # ------------------------------------------------------------ in the keeper's thread

    async def _start(self, n: int, limit: float) -> dict:
        self.n = n
        files.forget_controller(self.run)
        self._cluster = ipp.Cluster(
            config=Config(),
            log=_log,
            cluster_id=files.cluster_id(self.run),
            profile_dir=str(self.run.parent),
            controller_launcher_class=ControllerLauncher,
            engine_launcher_class=RankLauncher if self.asked is None else SlurmLauncher,
            **await self._reachable(),
            # Ranks start beside the controller and wait for its file, a second earlier that way.
            send_engines_connection_env=False,
            delay=0,
            load_profile=False,
            shutdown_atexit=False,
        )
        await self._cluster.start_controller()
        self._cluster.controller.on_stop(self._controller_ended)
        await self._launch()
        try:
            information = await self._cluster.controller.get_connection_info(timeout=limit)
        except (TimeoutError, RuntimeError):  # the second: it has ended
            raise ClusterError("the controller did not start") from None
        return information["client"]

    async def _reachable(self) -> dict:
        """Where the controller listens: on loopback, or for the nodes. Encrypted on either, as any
        user of a machine can subscribe on its loopback to what ranks print and are told."""
        encrypted = {"controller_args": ["--IPController.enable_curve=True"]}
        if self.asked is None:
            return encrypted
        where = await asyncio.to_thread(address, self.asked)
        return encrypted | {"controller_ip": where, "controller_location": where}

    async def _launch(self) -> None:
        if self._over:
            raise ClusterError("the cluster has been stopped meanwhile")
        self._become("starting")
        self._gone = []
        place = {} if self.asked is None else {"asked": self.asked}
        await self._cluster.start_engines(self.n, _RANKS, **place)
        launcher = self._cluster.engines[_RANKS]
        launcher.on_stop(lambda _: self._replace(launcher))
        self._looking = self._act(self._see_start())

    async def _see_start(self) -> None:
        """Wait until all ranks have registered, or cannot."""
        begun = asked = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            pids, now = files.pids(self.run), time.monotonic()
            if any(pid is None or not processes.alive(pid) for pid in pids.values()):
                return await self._fail("the engines ended while the ranks were starting")
            if self.job is not None and self.job.waiting:
                begun = now
            if self._client is not None and (self.asked is not None or len(pids) == self.n):
                known = self._client.uuids()
                if len(known) == self.n and not self._forgotten & set(known):
                    break
                if now - asked > NEWS:
                    self._client.learn()
                    asked = now
            if now - begun > START_LIMIT:
                return await self._fail(f"the engines did not register within {START_LIMIT:.0f} s")
        files.note_shared_memory(self.run)
        self._watch_deaths(pids)
        self._again = False
        self._become("ready")
        if self.asked is not None:
            self._looking = self._act(self._listen(self._cluster.engines[_RANKS]))

    async def _listen(self, launcher) -> None:
        """See when ranks of a job are silent for good, while Slurm takes the job for running.

        It misses a lost node after minutes. Ranks of a job that it has suspended are silent, too.
        """
        uuids, since = self._client.uuids(), None
        while self.state == "ready" and self._cluster.engines.get(_RANKS) is launcher:
            await asyncio.sleep(LISTEN)
            silent, now = files.silent(self.run), time.monotonic()
            ranks = [rank for rank, uuid in enumerate(uuids) if uuid in silent]
            if since is not None and now - since > SILENCE:
                await launcher.look()
            if not ranks or launcher.job is None or launcher.job.paused or launcher.job.over:
                since = None
            elif since is None:
                since = now
            elif now - since > SILENCE and self.state == "ready":
                return await self._lost(launcher.job, ranks)

    async def _lost(self, job: Job, ranks: list[int]) -> None:
        """Ranks of a job are silent for good: say so, then end what may be left of it."""
        places = (files.read(self.run, f"rank-{rank}.node") for rank in ranks)
        nodes = list(dict.fromkeys(place or "its node" for place in places))
        if len(ranks) == self.n:
            who = f"no rank of job {job.id} answers any more"
            which = f"a node may have been lost, most likely {nodes[0]}, where the job began"
        else:
            verb = "does" if len(ranks) == 1 else "do"
            who = f"{in_words(ranks)} of job {job.id} {verb} not answer any more"
            which = f"{', '.join(nodes)} may have been lost"
        said = f"{who}, though Slurm calls it running: {which} (sinfo shows it, in a while)"
        nobody = dict.fromkeys(("rank", "signal", "exit_code", "abort"))
        await self._job_died(nobody | {"where": ""}, said)

    def _watch_deaths(self, pids: dict[int, int]) -> None:
        """Learn the order in which ranks end: mpiexec soon takes the others down as well."""
        for rank, pid in sorted(pids.items()):
            try:
                watched = os.pidfd_open(pid)
            except ProcessLookupError:
                self._ended(rank)
                continue
            self._watched[watched] = rank
            self._loop.add_reader(watched, self._rank_ended, watched)

    def _rank_ended(self, watched: int) -> None:
        self._loop.remove_reader(watched)
        self._ended(self._watched[watched])

    def _ended(self, rank: int) -> None:
        self._gone.append(rank)
        if len(self._gone) == 1:
            self._loop.call_later(LAST_WORDS, self._replace, self._cluster.engines[_RANKS])

    def _replace(self, launcher) -> None:
        """Act on the end of the launcher's ranks, once."""
        if self._cluster.engines.get(_RANKS) is not launcher:
            return  # others run already
        if self.state == "ready":
            self._become("starting" if self.asked is None else "ending")
            self._act(self._died(launcher))
        elif self.state == "starting" and not (self._looking.done() or self._looking.cancelling()):
            self._looking.cancel()
            if self.asked is None and not self._again and not files.pids(self.run):
                self._again = True  # Open MPI fails at times for reasons of its own: errata 29
                self._act(self._once_more())
            else:
                self._act(self._fail(f"{self._said(launcher)} while the ranks were starting"))

    def _said(self, launcher) -> str:
        """How the ranks ended, in words: their job's, where they have one."""
        return (launcher.stop_data or {}).get("said", "the engines ended")

    def _act(self, coroutine) -> asyncio.Task:
        """Have it done; what it raises becomes the reason why the ranks are not there."""

        def ended(task):
            if not task.cancelled() and task.exception() is not None:
                self.error = f"the ranks did not start: {task.exception()}"
                self._become("failed")

        task = asyncio.ensure_future(coroutine)
        task.add_done_callback(ended)
        return task

    async def _died(self, launcher) -> None:
        """A rank ended: say who, fail what is outstanding, start again."""
        if files.taken_by(self.run).exists():
            return self._controller_ended()
        code = launcher.stop_data["exit_code"] if launcher.state == "after" else None
        if self.asked is None:
            uuids = await self._end_ranks(grace=0)
            how = death(self.run, launcher.get_output(), self._gone, code)
            self.deaths.append(how | {"uuids": uuids, "job": None})
            return await self._launch()
        job = self._said(launcher)
        await self._job_died(death(self.run, launcher.get_output(), self._gone, code, job), job)

    async def _job_died(self, how: dict, said: str) -> None:
        """Ranks of a job are gone, and no others are started. That is noted before their cell is
        ended, and before Slurm is asked to end what is left of the job, as it may be silent."""
        nodes = self.job.nodes if self.job is not None else ""
        self.deaths.append(how | {"uuids": self._client.uuids(), "job": said, "nodes": nodes})
        self.error = f"{said}. cluster = {call(self.n, self.asked)} asks for another"
        self._become("failed")
        await self._end_ranks(grace=0)

    async def _end_ranks(self, grace: float, n: int = 0) -> list[str]:
        """End the ranks and have the controller forget them; the engines they were."""
        for watched in self._watched:
            self._loop.remove_reader(watched)
            os.close(watched)
        self._watched = {}
        uuids = self._forget(n or self.n)
        files.end_ranks(self.run, grace)
        if launcher := self._cluster.engines.get(_RANKS):
            launcher.well = grace > 0
            await self._cluster.stop_engines(_RANKS)
        return uuids

    def _forget(self, n: int) -> list[str]:
        """Have the controller forget the engines of n ranks; which they were."""
        uuids = self._client.forget(range(n)) if self._client is not None else []
        self._forgotten |= set(uuids)
        return uuids

    async def _restart(self, n: int) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._become("starting")
        self._again = False
        self.n, before = n, self.n
        await self._end_ranks(grace=files.GRACE, n=before)
        await self._launch()

    async def _once_more(self) -> None:
        await self._end_ranks(grace=0)
        await self._launch()

    async def _fail(self, reason: str) -> None:
        if files.taken_by(self.run).exists():
            return self._controller_ended()
        self.error = reason
        self._become("ending")
        began = self.job is None or self.job.nodes
        await self._end_ranks(grace=0)
        log = files.log_tail(self.run, "engines.log")
        if log:
            self.error = f"{reason}. Their log ends with:\n{log}"
        elif self.asked is None:
            self.error = f"{reason}; no log"
        elif began and (self.run / "engines.log").exists():
            self.error = f"{reason}, and wrote nothing: see its setup, and begin if you set it"
        elif began:
            self.error = (
                f"{reason}, and nothing was written into {self.run}. If the nodes do not see that "
                "folder: the environment variable IPYTHONDIR names one that they do"
            )
        self._become("failed")

    def _controller_ended(self, _=None) -> None:
        """Without it nobody reaches the ranks: end them, and what waits for them."""
        if self._over:
            return
        self._over, self.state = True, "stopped"
        if self._looking is not None:
            self._looking.cancel()
        self._act(self._end_ranks(grace=0))

    async def _stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._cluster is None:
            return
        await self._end_ranks(grace=files.GRACE)
        await self._cluster.stop_controller()
