"""Networks with and without memory on the memory tasks, beside memorax.

Run with `uv run python benchmarks/memory.py`. For each task and network all seeds train in one
process, ours through `train_ppo_many`; memorax, in an environment of its own that uv makes below
`.cache/peers`, one after the other. What is already in the JSON file is not measured again, so that
an interrupted run can go on.

In our recurrent presets actor and critic share encoder and cell; in memorax they are two networks.
So ours are measured in both ways. The delayed graph has no counterpart there.
"""

import dataclasses
import sys
import time
from typing import Any

import _peers
from _memory_tasks import TASKS, make_task, settings
from _peers import MEMORAX, RunError
from _results import Results, chosen, common_arguments, mean_and_std, print_table

QUICK_STEPS = 50_000
OURS = "nnx-ppo-train"


@dataclasses.dataclass(frozen=True)
class Column:
    """A way to train a network.

    Attributes:
        title: Head of the column.
        name: In the results file.
        library: Whose environment the script runs in.
        script: What trains.
        arguments: What is passed to it besides task, network and seeds.
        networks: The networks that it has.
    """

    title: str
    name: str
    library: str
    script: str
    arguments: dict[str, Any]
    networks: tuple[str, ...]


AS_MEMORAX = {"recompute_advantages": False, "normalize_over": "rollout"}
"""Advantages are estimated and normalised once per rollout, by default in every minibatch."""

NETWORKS = ("mlp", "lstm", "gru", "lru", "graph")
RECURRENT = ("lstm", "gru", "lru")
SHARED, SEPARATE = ({"share": share, "ppo": AS_MEMORAX} for share in (True, False))
COLUMNS = (
    Column("preset", OURS, OURS, "_memory_ours.py", SHARED, NETWORKS),
    Column("separate critic", "separate", OURS, "_memory_ours.py", SEPARATE, RECURRENT),
    Column(
        MEMORAX.version,
        MEMORAX.name,
        MEMORAX.name,
        "_memory_memorax.py",
        {},
        ("mlp", *RECURRENT),
    ),
)


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
        pythons[MEMORAX.name] = str(_peers.make_environment(MEMORAX))
    failed = 0
    for task in tasks:
        shared = settings(task, n_steps) | {"seeds": seeds}
        for network in networks:
            job = {"task": task, "network": network, "seeds": seeds, "n_steps": n_steps}
            for column in COLUMNS:
                name = f"{task}/{network}/{column.name}"
                if network not in column.networks or column.library not in pythons:
                    continue
                if results.get(name, shared | column.arguments) is None:
                    failed += not measure(name, column, pythons, job, options.timeout, results)
        report(results, task, networks, shared)
    print(f"\n{time.perf_counter() - started:.0f} s in all; results in {options.out}")
    return 1 if failed else 0


def measure(
    name: str,
    column: Column,
    pythons: dict[str, str],
    job: dict[str, Any],
    timeout: float,
    results: Results,
) -> bool:
    """Runs one job and keeps its result; says whether it succeeded."""
    arguments = job | column.arguments
    try:
        result = _peers.run_job(pythons[column.library], column.script, arguments, timeout)
    except RunError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return False
    shared = settings(job["task"], job["n_steps"]) | {"seeds": job["seeds"]}
    results.put(name, shared | column.arguments, result)
    print(f"{name}: {mean_and_std(result['returns'])} ({result['seconds']:.0f} s)", flush=True)
    return True


def report(results: Results, task: str, networks: list[str], shared: dict[str, Any]) -> None:
    env = make_task(task)
    print(f"\n{task}: best {env.optimal_return:g}, without memory {env.memoryless_return:.3f}\n")
    rows = []
    for network in networks:
        found = [
            results.get(f"{task}/{network}/{column.name}", shared | column.arguments)
            for column in COLUMNS
        ]
        spreads = ["-" if one is None else mean_and_std(one["returns"]) for one in found]
        seconds = ["-" if one is None else f"{one['seconds']:.0f}" for one in found]
        rows.append([network, *spreads, ", ".join(seconds)])
    print_table(["network", *[column.title for column in COLUMNS], "seconds of each"], rows)
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
