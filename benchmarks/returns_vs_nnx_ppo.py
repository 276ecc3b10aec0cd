"""Final returns beside nnx-ppo: same tasks, networks, settings, seeds and evaluation.

Run with `uv run python benchmarks/returns_vs_nnx_ppo.py`. The peer runs in an environment of its
own that uv makes below `.cache/peers`; each training is a process, the peer's and ours in turn.
What is already in the JSON file is not measured again, so that an interrupted run can go on.
"""

import statistics
import sys
import time

import _peers
from _peers import NNX_PPO, RunError
from _results import Results, chosen, common_arguments, mean_and_std, print_table
from _return_tasks import TASKS

QUICK_STEPS = 30_000
OURS = "nnx-ppo-train"
SCRIPTS = {NNX_PPO.name: "_returns_nnx_ppo.py", OURS: "_returns_ours.py"}


def main() -> int:
    parser = common_arguments("Final returns beside nnx-ppo.", "returns_vs_nnx_ppo")
    options = parser.parse_args()
    tasks = chosen(options.tasks, list(TASKS), "--tasks")
    results = Results(options.out, options.fresh)
    n_steps = QUICK_STEPS if options.quick else None
    started = time.perf_counter()
    pythons = {NNX_PPO.name: _peers.make_environment(NNX_PPO), OURS: sys.executable}
    failed = 0
    for task in tasks:
        settings = TASKS[task].ppo(n_steps)
        for seed in range(options.seeds):
            order = list(SCRIPTS) if seed % 2 == 0 else list(reversed(SCRIPTS))
            for library in order:
                name = f"{task}/{library}/{seed}"
                if results.get(name, settings) is not None:
                    continue
                job = {"task": task, "seed": seed, "n_steps": n_steps}
                try:
                    result = _peers.run_job(
                        pythons[library], SCRIPTS[library], job, options.timeout
                    )
                except RunError as error:
                    failed += 1
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    continue
                results.put(name, settings, result)
                print(f"{name}: {result['return']:.3f} ({result['seconds']:.0f} s)", flush=True)
    report(results, tasks, options.seeds, n_steps)
    print(f"\n{time.perf_counter() - started:.0f} s in all; results in {options.out}")
    return 1 if failed else 0


def report(results: Results, tasks: list[str], n_seeds: int, n_steps: int | None) -> None:
    head = ["task", "best", NNX_PPO.version, OURS, "difference", "seconds of each"]
    rows = []
    for task in tasks:
        settings = TASKS[task].ppo(n_steps)
        found = {
            library: [
                result
                for seed in range(n_seeds)
                if (result := results.get(f"{task}/{library}/{seed}", settings)) is not None
            ]
            for library in SCRIPTS
        }
        returns = {library: [r["return"] for r in found[library]] for library in SCRIPTS}
        best = TASKS[task].evaluated.max_return
        means = [statistics.fmean(values) for values in returns.values() if values]
        rows.append(
            [
                task,
                "not known" if best is None else f"{best:g}",
                *[mean_and_std(values) for values in returns.values()],
                f"{means[1] - means[0]:+.3f}" if len(means) == 2 else "-",
                ", ".join(
                    f"{statistics.fmean(r['seconds'] for r in runs):.0f}" if runs else "-"
                    for runs in found.values()
                ),
            ]
        )
    print()
    print_table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
