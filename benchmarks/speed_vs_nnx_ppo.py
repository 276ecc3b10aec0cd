"""Time of an iteration, of the first compilation, and memory, beside nnx-ppo.

Run with `uv run python benchmarks/speed_vs_nnx_ppo.py`. Both libraries train the same networks in
the same environment through their `train_ppo`; their processes take turns (see `_turns.py`).
Without JAX's compilation cache, so that compilations count.
"""

import dataclasses
import sys
from typing import Any

import _peers
from _peers import NNX_PPO, RunError
from _results import Results, chosen, common_arguments, print_table
from _speed_networks import NETWORKS
from _turns import Timing, Worker, measure

OURS = "nnx-ppo-train"
SCRIPTS = {NNX_PPO.name: "_speed_nnx_ppo.py", OURS: "_speed_ours.py"}
NO_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_COMPILATION_CACHE_DIR": ""}


def main() -> int:
    parser = common_arguments("Speed and memory beside nnx-ppo.", "speed_vs_nnx_ppo")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each library")
    parser.add_argument("--turn", type=float, default=3.0, help="seconds of a turn, at least")
    options = parser.parse_args()
    names = chosen(options.tasks, list(NETWORKS), "--tasks")
    rounds, seconds = (2, 0.5) if options.quick else (options.rounds, options.turn)
    results = Results(options.out, options.fresh)
    pythons = {NNX_PPO.name: _peers.make_environment(NNX_PPO), OURS: sys.executable}
    failed = 0
    for name in names:
        settings = settings_of(name, rounds, seconds)
        if results.get(name, settings) is not None:
            continue
        try:
            timings = measure(
                {
                    library: Worker(pythons[library], script, {"name": name}, NO_CACHE)
                    for library, script in SCRIPTS.items()
                },
                rounds,
                seconds,
            )
        except RunError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        result = {library: dataclasses.asdict(timing) for library, timing in timings.items()}
        results.put(name, settings, result)
        print_table(HEAD, [row(name, result)])
    print()
    rows = [
        row(name, result)
        for name in names
        if (result := results.get(name, settings_of(name, rounds, seconds)))
    ]
    print_table(HEAD, rows)
    return 1 if failed else 0


def settings_of(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """What a result was measured with."""
    return {**NETWORKS[name].ppo(), "rounds": rounds, "seconds": seconds}


HEAD = ["network", "iteration (s)", "ratio", "first compile (s)", "ratio", "peak (MiB)", "ratio"]


def row(name: str, result: dict[str, dict[str, float]]) -> list[str]:
    """Peer / ours, and the peer's figure divided by ours."""
    peer, ours = (Timing(**result[library]) for library in SCRIPTS)  # type: ignore[arg-type]
    cells = [name]
    for before, after, unit, digits in (
        (peer.iteration, ours.iteration, 1, 3),
        (peer.first, ours.first, 1, 1),
        (peer.peak_bytes, ours.peak_bytes, 2**20, 0),
    ):
        cells += [
            f"{before / unit:.{digits}f} / {after / unit:.{digits}f}",
            f"{before / after:.2f}",
        ]
    return cells


if __name__ == "__main__":
    sys.exit(main())
