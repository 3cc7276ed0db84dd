"""The command line: `python -m ringside run`, `campaign`, `report`, `grade` and `progress`.

Exit status: 0 done, 1 some points failed or were not judged, 2 it cannot be carried out, 130 ended
by Ctrl-C; `run` has more of them, see `ringside run --help`.
"""

import argparse
import sys

DONE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_SWEEP = """\
A sweep file:

  results = "results.csv"      relative to this file
  source = "mpiexec"           or "slurm", "simulated"; "engines" from a notebook: campaign.run
  platform = "halo-lecture"    with "simulated": one of Ringside's platforms, or a file of that kind
  repetitions = 100            timed and verified repetitions of a point
  warmup = 1                   repetitions before these, not in the table
  limit = 60                   seconds a point may take, with the start of its ranks; one that
                               takes longer has failed

  [[sweep]]                    as many as you like
  kernel = "ringshift"
  variants = ["sendrecv"]      left out: all of the kernel's
  ranks = [2, 4]
  bytes = [2, 1024]            or { from = 2, to = 16777216, factor = 2 }
  settings = { trips = 1 }     left out: the defaults
  nodes = [1, 2]               with "slurm", "simulated": the nodes of the ranks, evenly ([1])

  [slurm]                      with source = "slurm", and no more than your cluster insists on
  partition = "short"
  account = "teaching"
  constraint = "ib"
  time = "00:30:00"            of a job; left out: what its points may take at most
  setup = ["module load gcc"]  lines of the job's script before the first point
  begin = "srun --mpi=pmi2"    what begins the ranks; left out: what suits the MPI library
  queue = 4                    jobs in the queue at once

Each point is kept as it is measured, as a file in the folder results.points, with what all of them
were measured with and which failed; at the end the table is put together from them. A campaign that
was ended goes on where it stopped when the same command is given again.

With "simulated" seconds are those of the simulated machine: one repetition, and warmup = 0, will
do, as nothing is drawn by lot. It needs SimGrid.

With "slurm" all points of a kernel with the same ranks and nodes are one job; scripts and logs are
in results.points/jobs. The jobs go on when this command is ended: the same again watches them, and
with --cancel it cancels them. What a job did not measure, whatever the reason, has failed."""

_REPORT = """\
A program is a kernel and its variant. All times are seconds, the mean of the middle 80 % of a
point's repetitions by size.

  performance.csv  mean over the ranks, and max of the slowest rank, per program, ranks and bytes
  scalability.csv  the slowest rank's time T(p), a column for each number of ranks p
  efficiency.csv   T(p0) / T(p), p0 being the least number of ranks measured for that program and
                   length: every rank has the same work however many there are (weak scaling)

Where the table has several numbers of nodes, each of the three has a column for them, and the p0
ranks are those on the fewest nodes."""

_GRADE = """\
Of each notebook the cell that defines an exercise's function is judged, as check("...") in the
notebook would, but in namespaces of its own: without network, without other processes, with nothing
of the disk that can be written, and without the other submissions. Outputs in the notebook count
for nothing. What has been judged is kept beside the results, so that a run that was ended goes on
where it stopped."""

_RUN = """\
  ringside run -n 4 ./ring 500000
  ringside run -n 4 --timeline ring.svg python ring.py
  ringside run -n 4 --mpiexec "/opt/openmpi/bin/mpiexec --bind-to none" ./a.out
  ringside run -n 1 ./ocean : -n 3 ./atmosphere       several programs as one job

The program, in C, Fortran or Python, needs no change and need not be compiled anew. Its input and
output are its own. When its ranks deadlock, the verdict goes to standard error, with the call of
every rank (and its source line, if compiled with -g), and the program is ended.

Exit status: the program's own, or
  2        it cannot be run: wrong usage, no such program, no scope for its MPI library
  120      deadlock: ranks wait for each other, or for what nobody will do
  121      mismatch: ranks are in collectives that do not fit, MPI_Finalize among them
  122      suspected: ranks do nothing but test in a loop, for longer than --quiet
  123      with --strict: messages that nobody received, or a collective that not all ranks were in
  128 + s  a rank was killed by signal s, or the run was ended by it (130: Ctrl-C)"""


def main(arguments: list[str] | None = None) -> int:
    """Carry out a command line (sys.argv's if none is given); its exit status."""
    options = _parser().parse_args(arguments)
    from ringside.errors import CampaignError, ClusterError, GradeError, RunError

    try:
        return options.command(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (CampaignError, ClusterError, GradeError, RunError, OSError) as error:
        print(f"ringside: {error}", file=sys.stderr)
        return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ringside",
        description="The scope for any MPI program; measurements with Ringside's kernels. "
        "The lessons: make lab.",
    )
    commands = parser.add_subparsers(
        required=True, metavar="run | campaign | report | grade | progress"
    )
    raw = argparse.RawDescriptionHelpFormatter
    _add_run(
        commands.add_parser(
            "run",
            help="run an MPI program; name its deadlock",
            usage="ringside run -n RANKS [options] PROGRAM [ARGUMENT ...] "
            "[: -n RANKS PROGRAM [ARGUMENT ...] ...]",
            epilog=_RUN,
            formatter_class=raw,
        )
    )
    one = commands.add_parser(
        "campaign", help="measure a sweep into a table", epilog=_SWEEP, formatter_class=raw
    )
    one.add_argument("sweep", help="a TOML file, described below")
    either = one.add_mutually_exclusive_group()
    either.add_argument("--retry", action="store_true", help="try points that failed once more")
    either.add_argument("--cancel", action="store_true", help="cancel the campaign's jobs in Slurm")
    one.set_defaults(command=_campaign)
    one = commands.add_parser(
        "report", help="three CSV reports from a table", epilog=_REPORT, formatter_class=raw
    )
    one.add_argument("results", help="the table a campaign wrote")
    one.add_argument("--directory", default=".", help="where the reports go (here)")
    one.set_defaults(command=_report)
    one = commands.add_parser(
        "grade", help="judge submitted exercises", epilog=_GRADE, formatter_class=raw
    )
    one.add_argument("folder", help="notebooks, at any depth")
    one.add_argument("--results", default="results.csv", help="the table (results.csv)")
    one.set_defaults(command=_grade)
    one = commands.add_parser("progress", help="lessons run and exercises right, in your folder")
    one.add_argument("folder", nargs="?", help="your lessons' (my-lessons of the checkout)")
    one.set_defaults(command=_progress)
    return parser


def _add_run(one: argparse.ArgumentParser) -> None:
    one.add_argument("-n", "-np", dest="ranks", type=int, required=True, help="how many ranks")
    one.add_argument("--timeline", metavar="FILE.svg", help="a picture: every call, every message")
    one.add_argument("--player", metavar="FILE.html", help="the run, to be stepped and played")
    one.add_argument("--events", metavar="FILE.csv", help="a table: a row for every call")
    one.add_argument(
        "--trace", metavar="FILE.json", help="trace events, for Perfetto (ui.perfetto.dev)"
    )
    one.add_argument(
        "--chance", action="store_true", help="at its end: which sends relied on a buffer"
    )
    one.add_argument(
        "--insist", action="store_true", help="every MPI_Send as MPI_Ssend: no buffer helps"
    )
    one.add_argument(
        "--strict", action="store_true", help="messages that nobody received are a failure (123)"
    )
    one.add_argument(
        "--quiet", type=float, metavar="SECONDS", help="a loop of tests is suspected after (20)"
    )
    one.add_argument(
        "--mpiexec",
        metavar="PATH",
        help="another mpiexec: a file, or words as a shell reads them, options among them",
    )
    one.add_argument("--scope", metavar="PATH", help="the libscope.so built with the program's MPI")
    one.add_argument("program", help="a program or a Python file")
    one.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    one.set_defaults(command=_run)


def _run(options) -> int:
    from ringside import run

    files = ("timeline", "player", "events", "trace")
    names = ("mpiexec", "scope", "insist", "strict", "chance", "quiet", *files)
    settings = {name: getattr(options, name) for name in names}
    parts = run.parts(options.ranks, [options.program, *options.arguments])
    return run.carry_out(run.plan(parts, **settings))


def _campaign(options) -> int:
    from ringside.measure.campaign import cancel, carry_out
    from ringside.measure.sweeps import plan

    if options.cancel:
        cancel(options.sweep)
        return DONE
    failed = carry_out(plan(options.sweep), retry=options.retry)
    return SOME_FAILED if failed else DONE


def _report(options) -> int:
    from ringside.measure.reports import report
    from ringside.measure.tables import read

    table = read(options.results)
    reports = report(table, options.directory)
    print(f"{', '.join(f'{name}.csv' for name in reports)} are in {options.directory}")
    if with_ := table.attrs.get("measured with"):
        print(f"measured with {with_}")
    return DONE


def _grade(options) -> int:
    from pathlib import Path

    from ringside.check.grade import grade

    results = Path(options.results)
    rows = grade(Path(options.folder), results)
    right = sum(row["result"] == "right" for row in rows)
    unknown = sum(row["result"] == "not judged" for row in rows)
    print(f"{right} of {len(rows)} right: {results} and {results.with_suffix('.html')}")
    if unknown:
        print(f"{unknown} not judged, for reasons in the table: the same command tries them again")
    return SOME_FAILED if unknown else DONE


def _progress(options) -> int:
    from pathlib import Path

    from ringside import ROOT
    from ringside.check.progress import progress

    print(progress(Path(options.folder) if options.folder else ROOT / "my-lessons"))
    return DONE


if __name__ == "__main__":
    sys.exit(main())
