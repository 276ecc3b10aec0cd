"""Time of an iteration beside an earlier commit: paired turns, with an interval of their ratio.

Run with `uv run python benchmarks/speed_vs_commit.py COMMIT`. The packages of that commit are
installed in an environment of their own, with the same JAX; processes of both train the networks of
`speed_vs_nnx_ppo.py` in turns (see `_turns.py`).
"""

import argparse
import math
import statistics
import subprocess
import sys
from pathlib import Path

import _peers
from _peers import CACHE, PACKAGES, ROOT, RunError
from _results import chosen, print_table
from _speed_networks import NETWORKS
from _turns import Worker, measure, medians_of_turns

NO_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_COMPILATION_CACHE_DIR": ""}
HEAD = ["network", "before (s)", "now (s)", "ratio", "95 % interval", "best of both"]

STUDENT_T = {5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201, 15: 2.131, 19: 2.093, 29: 2.045}
"""97.5 % quantiles by degrees of freedom; the next smaller one that is known is used."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed beside an earlier commit.")
    parser.add_argument("commit")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="some of the networks")
    parser.add_argument("--rounds", type=int, default=12, help="paired turns")
    parser.add_argument("--pieces", type=int, default=3, help="alternating pieces of a turn")
    parser.add_argument("--piece", type=float, default=1.5, help="seconds of a piece, at least")
    options = parser.parse_args()
    if options.rounds < 6:
        parser.error(f"--rounds: expected at least 6 for an interval, got {options.rounds}")
    names = chosen(options.tasks, list(NETWORKS), "--tasks")
    before = environment_of(options.commit)
    failed, rows = 0, []
    for name in names:
        workers = {
            label: Worker(python, "_speed_ours.py", {"name": name}, NO_CACHE)
            for label, python in (("before", before), ("now", Path(sys.executable)))
        }
        try:
            measure(workers, options.rounds * options.pieces, options.piece)
        except RunError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        medians = [medians_of_turns(worker, options.pieces) for worker in workers.values()]
        rows.append(row(name, *medians))
        print_table(HEAD, rows[-1:])
    print()
    print_table(HEAD, rows)
    return 1 if failed else 0


def environment_of(commit: str) -> Path:
    """Makes the environment of a commit; returns its Python."""
    name = _peers.run(["git", "-C", str(ROOT), "rev-parse", "--short", commit], timeout=60).strip()
    tree = CACHE / "commits" / name
    if not tree.exists():
        tree.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", name, "packages", "README.md", "LICENSE"],
            capture_output=True,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    paths = [f"--editable={tree / 'packages' / package}" for package in PACKAGES]
    return _peers.make_environment(_peers.Peer(f"commit-{name}", tuple(paths)), own=())


def row(name: str, before: list[float], now: list[float]) -> list[str]:
    """Median times, the geometric mean of the paired ratios with its interval, ratio of bests."""
    logs = [math.log(after / earlier) for earlier, after in zip(before, now, strict=True)]
    mean = statistics.fmean(logs)
    quantile = STUDENT_T[max(n for n in STUDENT_T if n <= len(logs) - 1)]
    half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return [
        name,
        f"{statistics.median(before):.4f}",
        f"{statistics.median(now):.4f}",
        f"{math.exp(mean):.3f}",
        f"{math.exp(mean - half):.3f} to {math.exp(mean + half):.3f}",
        f"{min(now) / min(before):.3f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
