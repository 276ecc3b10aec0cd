"""Networks with and without memory on the memory tasks, beside memorax.

Run with `uv run python benchmarks/memory.py`. For each task and network all seeds train in one
process, ours at once through `train_ppo_many`; memorax, in an environment of its own that uv makes
below `.cache/peers`, one after the other. The delayed graph has no counterpart there. What is
already in the JSON file is not measured again, so that an interrupted run can go on.
"""

import sys
import time

import _peers
from _memory_tasks import TASKS, make_task, settings
from _peers import MEMORAX, RunError
from _results import Results, chosen, common_arguments, mean_and_std, print_table

QUICK_STEPS = 50_000
OURS = "nnx-ppo-train"
SCRIPTS = {OURS: "_memory_ours.py", MEMORAX.name: "_memory_memorax.py"}
NETWORKS = ("mlp", "lstm", "gru", "lru", "graph")


def libraries(network: str) -> list[str]:
    return [OURS] if network == "graph" else list(SCRIPTS)


def main() -> int:
    parser = common_arguments("Memory tasks beside memorax.", "memory")
    parser.add_argument("--networks", nargs="+", metavar="NETWORK", help="default all")
    parser.add_argument("--ours-only", action="store_true", help="leave memorax out")
    options = parser.parse_args()
    tasks = chosen(options.tasks, list(TASKS), "--tasks")
    networks = chosen(options.networks, NETWORKS, "--networks")
    results = Results(options.out, options.fresh)
    n_steps = QUICK_STEPS if options.quick else None
    seeds = list(range(options.seeds))
    started = time.perf_counter()
    pythons = {OURS: sys.executable}
    if not options.ours_only:
        pythons[MEMORAX.name] = _peers.make_environment(MEMORAX)
    failed = 0
    for task in tasks:
        measured = settings(task, n_steps) | {"seeds": seeds}
        for network in networks:
            for library in libraries(network):
                name = f"{task}/{network}/{library}"
                if library not in pythons or results.get(name, measured) is not None:
                    continue
                job = {"task": task, "network": network, "seeds": seeds, "n_steps": n_steps}
                try:
                    result = _peers.run_job(
                        pythons[library], SCRIPTS[library], job, options.timeout
                    )
                except RunError as error:
                    failed += 1
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    continue
                results.put(name, measured, result)
                spread = mean_and_std(result["returns"])
                print(f"{name}: {spread} ({result['seconds']:.0f} s)", flush=True)
    for task in tasks:
        report(results, task, networks, settings(task, n_steps) | {"seeds": seeds})
    print(f"\n{time.perf_counter() - started:.0f} s in all; results in {options.out}")
    return 1 if failed else 0


def report(results: Results, task: str, networks: list[str], measured: dict) -> None:
    env = make_task(task)
    print(f"\n{task}: best {env.optimal_return:g}, without memory {env.memoryless_return:.3f}\n")
    rows = []
    for network in networks:
        row = [network]
        for library in SCRIPTS:
            result = results.get(f"{task}/{network}/{library}", measured)
            row.append("-" if result is None else mean_and_std(result["returns"]))
            row.append("-" if result is None else f"{result['seconds']:.0f}")
        rows.append(row)
    print_table(["network", OURS, "seconds", MEMORAX.version, "seconds"], rows)


if __name__ == "__main__":
    sys.exit(main())
