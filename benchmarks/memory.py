"""How well networks remember: two tasks in the manner of POPGym, beside memorax 1.0.1.

    uv run python benchmarks/memory.py [--seeds 5] [--steps 400000] [--tasks NAME ...] [--json FILE]

Trains an MLP, LSTM, GRU, LRU and delayed graph of ours, and the cells that memorax has too, with
the same steps and hyperparameters (`_memory_settings.py`). memorax gets an environment of its own,
made by uv. After each network the results so far are written as JSON, and a run that finds such a
file goes on with what is missing. The table shows mean and standard deviation over seeds of the
return of the most likely actions; 1 is perfect.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from _memory_settings import TASKS
from _peers import MEMORAX, RunError, make_environment, run_job

OURS = ("mlp", "lstm", "gru", "lru", "graph")
THEIRS = ("lstm", "gru", "lru")


def main() -> int:
    arguments = _parsed()
    results = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    seeds = list(range(arguments.seeds))
    python = {"ours": sys.executable, "memorax": make_environment(MEMORAX)}
    script = {"ours": "_memory_ours.py", "memorax": "_memory_memorax.py"}
    jobs = [
        (task, library, network)
        for task in arguments.tasks
        for network in OURS
        for library in ("ours", *(("memorax",) if network in THEIRS else ()))
    ]
    failed, started = False, time.perf_counter()
    for task, library, network in jobs:
        name = f"{task}/{network}/{library}/{arguments.steps}/{len(seeds)}"
        if name not in results:
            job = {"task": task, "network": network, "seeds": seeds, "n_steps": arguments.steps}
            try:
                results[name] = run_job(python[library], script[library], job, arguments.timeout)
            except RunError as error:
                print(f"{name} failed: {error}", file=sys.stderr)
                failed = True
                continue
            arguments.json.write_text(json.dumps(results, indent=2) + "\n")
        found = results[name]
        print(f"{name}: {_spread(found['returns'])} in {found['seconds']:.0f} s", flush=True)
    for task in arguments.tasks:
        _print_table(task, results, arguments.steps, len(seeds))
    print(f"{time.perf_counter() - started:.0f} s in all")
    return int(failed)


def _print_table(task: str, results: dict[str, dict], steps: int, n_seeds: int) -> None:
    blind = TASKS[task]().memoryless_return
    print(f"\n{task}: 1 is perfect, {blind:.2f} the best without memory; {n_seeds} seeds")
    print(f"| {'network':8} | {'nnx-ppo-train':14} | {'memorax':14} |")
    print(f"| {'-' * 8} | {'-' * 14} | {'-' * 14} |")
    for network in OURS:
        cells = [
            _spread(results[name]["returns"]) if name in results else "-"
            for library in ("ours", "memorax")
            for name in [f"{task}/{network}/{library}/{steps}/{n_seeds}"]
        ]
        print(f"| {network:8} | {cells[0]:14} | {cells[1]:14} |")


def _spread(returns: list[float]) -> str:
    spread = statistics.stdev(returns) if len(returns) > 1 else 0.0
    return f"{statistics.mean(returns):.3f} ± {spread:.3f}"


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one network")
    parser.add_argument("--json", type=Path, default=Path("memory.json"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
