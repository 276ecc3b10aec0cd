"""Seconds until a policy for MuJoCo Playground's CartpoleBalance earns a return, beside Brax.

Run with `uv run python benchmarks/time_to_return_vs_brax.py`. Both sides run in the environment of
the peer that uv makes below `.cache/peers`, one process for each seed, the peer's and ours in turn
(so the ratio of one seed is only as good as the machine is steady; take the median of several).
What is already in the JSON file is not measured again, so that an interrupted run can go on.

Networks and settings are those that Playground gives for Brax on this task: policy of 4 layers of
32, value of 5 layers of 256, swish, normalised observations. `--setup playground` takes them as
they are: 983,040 environment steps to an iteration, for accelerators. The default, `small`, has
fewer environments, smaller minibatches and fewer epochs (`SETUPS` below), so that there is
something to see within minutes on a few cores; everything else is Playground's. On CPU the task
runs with MuJoCo's JAX implementation.

The clock runs from the call of either library's training until the evaluation, stops for the
evaluations, and is read with and without the seconds that JAX spent on tracing and compilation
(JAX's own events; compiled code is not cached on disk). The evaluation is the same code for both:
whole episodes of the policy's mode from the same first states. `--targets` are returns to look up
in the curves; training ends at the highest. The evaluation before training does not count: a policy
that knows nothing may be lucky. All curves are in the JSON file.

What differs: Brax builds an evaluator of its own, which is not run but compiles a reset. It starts
episodes anew from the state that the environment began with and resets all environments after every
evaluation; ours draws new first states. With `--setup playground`, Brax cuts the 480 steps of an
environment into 16 unrolls of 30, each bootstrapped by itself; ours has rollouts of 480. Brax makes
minibatches of unrolls, ours of environments. Brax folds observations into the normaliser before the
gradient steps, ours after them. JAX 0.10 lacks a function that Brax calls once before training; a
stand-in is put there.
"""

import argparse
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import _peers
from _peers import BRAX, RunError
from _results import Results, print_table

OURS = "nnx-ppo-train"
SCRIPTS = {BRAX.name: "_time_to_return_brax.py", OURS: "_time_to_return_ours.py"}
SETUPS: dict[str, dict[str, int]] = {
    "small": {
        "num_envs": 128,
        "batch_size": 32,
        "num_minibatches": 4,
        "num_updates_per_batch": 2,
    },
    "playground": {},
}
"""What replaces Playground's settings."""
QUICK = {"steps": 8_000, "every": 4_000}


def main() -> int:
    options = arguments()
    job: dict[str, Any] = {
        "overrides": SETUPS[options.setup],
        "steps": options.steps,
        "every": options.every,
        "target": max(options.targets),
    }
    if options.quick:
        job |= QUICK
    seeds = range(1 if options.quick else options.seeds)
    results = Results(options.out, options.fresh)
    started = time.perf_counter()
    python = _peers.make_environment(BRAX)
    failed = 0
    found: dict[str, list[dict[str, Any]]] = {library: [] for library in SCRIPTS}
    for seed in seeds:
        for library in list(SCRIPTS) if seed % 2 == 0 else reversed(SCRIPTS):
            name = f"{options.setup}/{library}/{seed}"
            result = results.get(name, job)
            if result is None:
                try:
                    result = _peers.run_job(
                        python, SCRIPTS[library], job | {"seed": seed}, options.timeout
                    )
                except RunError as error:
                    failed += 1
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    continue
                results.put(name, job, result)
                best = max(point["return"] for point in result["points"][1:])
                last = result["points"][-1]
                print(f"{name}: {last['steps']:,} steps, best return {best:.0f}", flush=True)
            found[library].append(result)
    report(found, sorted(options.targets))
    print(f"\n{time.perf_counter() - started:.0f} s in all; results in {options.out}")
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Time to a return beside Brax.")
    parser.add_argument("--setup", choices=list(SETUPS), default="small", help="see above")
    parser.add_argument("--steps", type=int, default=1_500_000, help="environment steps at most")
    parser.add_argument("--every", type=int, default=100_000, help="steps between evaluations")
    parser.add_argument(
        "--targets", type=float, nargs="+", default=[300.0, 400.0, 500.0], help="of 1000 at most"
    )
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds, from 0 on")
    parser.add_argument("--quick", action="store_true", help="a few iterations: does it run?")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one process")
    default = _peers.ROOT / "runs" / "benchmarks" / "time_to_return_vs_brax.json"
    parser.add_argument("--out", type=Path, default=default, help="JSON file of the results")
    return parser.parse_args()


def report(found: dict[str, list[dict[str, Any]]], targets: list[float]) -> None:
    """Prints times to the targets, and speed, compilation and memory of the whole trainings."""
    if not all(found.values()):
        return
    peer, ours = found.values()
    print(f"\n{BRAX.version} / {OURS}; medians; a ratio above 1 is in favour of the latter.\n")
    rows = []
    for target in targets:
        before, after = ([reached(one["points"], target) for one in runs] for runs in (peer, ours))
        cells = [f"{target:g}"]
        for key, digits in (("trained", 1), ("seconds", 1), ("steps", 0)):
            cells += pair(median(before, key), median(after, key), digits)
        cells.append(" / ".join(f"{sum(map(bool, r))} of {len(r)}" for r in (before, after)))
        rows.append(cells)
    head = ["return", "without compile (s)", "ratio", "with compile (s)", "ratio"]
    print_table([*head, "steps", "ratio", "reached"], rows)
    print()
    cells = []
    summaries = [[summary(one) for one in runs] for runs in (peer, ours)]
    for key, digits in (("step", 1), ("compile", 1), ("peak", 0)):
        cells += pair(*(median(runs, key) for runs in summaries), digits=digits)
    head = ["time per step (us)", "ratio", "compile (s)", "ratio", "peak (MiB)", "ratio"]
    print_table(head, [cells])


def trained(point: dict[str, float]) -> float:
    """Seconds of training without compilation until an evaluation."""
    return point["seconds"] - point["compile_seconds"]


def summary(run: dict[str, Any]) -> dict[str, float]:
    """Microseconds per environment step, seconds of compilation, MiB."""
    first, last = run["points"][0], run["points"][-1]
    seconds = trained(last) - trained(first)
    return {
        "step": 1e6 * seconds / (last["steps"] - first["steps"]),
        "compile": last["compile_seconds"],
        "peak": run["peak_bytes"] / 2**20,
    }


def reached(points: list[dict[str, float]], target: float) -> dict[str, float]:
    """The first evaluation after training began that is good enough; empty if there is none."""
    for point in points[1:]:
        if point["return"] >= target:
            return {**point, "trained": trained(point)}
    return {}


def median(runs: list[dict[str, float]], key: str) -> float:
    """Of one figure; a run that did not get there took for ever."""
    return statistics.median(run.get(key, math.inf) for run in runs)


def pair(before: float, after: float, digits: int) -> list[str]:
    """Two figures and the first divided by the second; `-` where one is for ever."""
    texts = [f"{x:,.{digits}f}" if math.isfinite(x) else "-" for x in (before, after)]
    ratio = f"{before / after:.2f}" if math.isfinite(before + after) else "-"
    return [" / ".join(texts), ratio]


if __name__ == "__main__":
    sys.exit(main())
