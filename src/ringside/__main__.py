"""The command line: `python -m ringside campaign sweep.toml`, `python -m ringside report`.

Exit status: 0 done, 1 some points failed, 2 it cannot be carried out, 130 ended by Ctrl-C.
"""

import argparse
import sys

DONE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_SWEEP = """\
A sweep file:

  results = "results.csv"      relative to this file
  source = "mpiexec"           "engines" only from a notebook, see ringside.campaign.run
  repetitions = 100            timed and verified repetitions of a point
  warmup = 1                   repetitions before these, not in the table
  limit = 60                   seconds a point may take; one that takes longer has failed

  [[sweep]]                    as many as you like
  kernel = "ringshift"
  variants = ["sendrecv"]      left out: all of the kernel's
  ranks = [2, 4]
  bytes = [2, 1024]            or { from = 2, to = 16777216, factor = 2 }
  settings = { trips = 1 }     left out: as usual

The table is appended to point by point. A campaign that was ended goes on where it stopped when
the same command is given again; results.notes.json, beside the table, says what it was measured
with and which points failed."""

_REPORT = """\
A program is a kernel and its variant. All times are seconds, the mean of the middle 80 % of a
point's repetitions by size.

  performance.csv  mean over the ranks, and max of the slowest rank, per program, ranks and bytes
  scalability.csv  the slowest rank's time T(p), a column for each number of ranks p
  efficiency.csv   T(p0) / T(p), p0 being the least number of ranks measured for that program and
                   length: every rank has the same work however many there are (weak scaling)"""


def main(arguments: list[str] | None = None) -> int:
    """Carry out a command line (sys.argv's if none is given); its exit status."""
    options = _parser().parse_args(arguments)
    from ringside.errors import CampaignError, ClusterError

    try:
        return options.command(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (CampaignError, ClusterError, OSError) as error:
        print(f"ringside: {error}", file=sys.stderr)
        return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ringside",
        description="Measurements with Ringside's kernels. The lessons: make lab.",
    )
    commands = parser.add_subparsers(required=True, metavar="campaign | report")
    raw = argparse.RawDescriptionHelpFormatter
    one = commands.add_parser(
        "campaign", help="measure a sweep into a table", epilog=_SWEEP, formatter_class=raw
    )
    one.add_argument("sweep", help="a TOML file, described below")
    one.add_argument("--retry", action="store_true", help="try points that failed once more")
    one.set_defaults(command=_campaign)
    one = commands.add_parser(
        "report", help="three CSV reports from a table", epilog=_REPORT, formatter_class=raw
    )
    one.add_argument("results", help="the table a campaign wrote")
    one.add_argument("--directory", default=".", help="where the reports go (here)")
    one.set_defaults(command=_report)
    return parser


def _campaign(options) -> int:
    from ringside import campaign

    failed = campaign.carry_out(campaign.plan(options.sweep), retry=options.retry)
    return SOME_FAILED if failed else DONE


def _report(options) -> int:
    from ringside import campaign

    reports = campaign.report(campaign.read(options.results), options.directory)
    print(f"{', '.join(f'{name}.csv' for name in reports)} are in {options.directory}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
