"""How time and memory of a graph grow: with environments, rollout, populations and delay.

Run with `uv run python benchmarks/growth.py`, a sweep at a time with `--sweeps`. The network is a
star (`_speed_networks.star`): populations of `--size` around a root of 64, connected both ways with
delays. A sweep changes one number and leaves the others at their base:

- `n_envs`: environments in parallel;
- `T`: steps of a rollout;
- `populations`: around the root;
- `delay`: of all connections between root and populations, in steps (else 1, 2, 3 in turn).

All points of a sweep take turns (see `_turns.py`), and with them a process that multiplies float32
matrices of 1024 x 1024 by a compiled `jnp.matmul`: its rate is what the machine can do. The share
of that rate is the useful arithmetic of an iteration over what the machine could do in its time.
Counted are multiplications and additions of weights: `2 * parameters` to an environment step for
the rollout, and three times that for each epoch, forwards and backwards. Environments, sampling,
activations, ring buffers, advantages and optimiser are not counted, so the share is what all of
them leave.

Compilations count by themselves, without JAX's cache: from before the network is built until the
first iteration is done, less an iteration. Peak memory is that of the process (on an accelerator,
of the accelerator), the compiler's included.
"""

import argparse
import dataclasses
import sys
from typing import Any

import _growth_matmul
from _peers import RunError
from _results import Results, chosen, print_table
from _speed_networks import Speed, star
from _speed_table import NO_CACHE, turn_arguments
from _turns import Timing, Worker, measure

SWEEPS: dict[str, tuple[int, ...]] = {
    "n_envs": (128, 256, 512, 1024, 2048, 4096),
    "T": (8, 16, 32, 64, 128),
    "populations": (20, 50, 100, 200, 400),
    "delay": (1, 2, 4, 8, 16, 32, 64),
}
MATMUL = "matmul"
CHUNK = 20  # products from one reading of the clock to the next
HEAD = [
    "time per step (us)",
    "iteration (s)",
    "compile (s)",
    "peak (MiB)",
    "parameters",
    "of machine (%)",
]


@dataclasses.dataclass(frozen=True)
class Point:
    """What is trained.

    Attributes:
        n_envs: Environments in parallel.
        rollout_length: Steps of a rollout.
        n_populations: Around the root.
        size: Units of each.
        delays: Of their connections, in turn.
    """

    n_envs: int
    rollout_length: int
    n_populations: int
    size: int
    delays: tuple[int, ...] = (1, 2, 3)

    def at(self, sweep: str, value: int) -> "Point":
        """The same but for what a sweep changes."""
        if sweep == "delay":
            return dataclasses.replace(self, delays=(value,))
        names = {"T": "rollout_length", "populations": "n_populations"}
        return dataclasses.replace(self, **{names.get(sweep, sweep): value})

    def ppo(self) -> dict[str, Any]:
        """The settings of the training."""
        build = star(self.n_populations, self.size, self.delays)
        return Speed(build, self.n_envs, self.rollout_length, is_graph=True).ppo()


def main() -> int:
    options = arguments()
    sweeps = chosen(options.sweeps, list(SWEEPS), "--sweeps")
    rounds, seconds = (1, 0.5) if options.quick else (options.rounds, options.turn)
    base = Point(options.n_envs, options.rollout_length, options.populations, options.size)
    results = Results(options.out, options.fresh)
    failed = 0
    for sweep in sweeps:
        values = SWEEPS[sweep][:2] if options.quick else SWEEPS[sweep]
        points = {value: base.at(sweep, value) for value in values}
        settings = {
            "points": [dataclasses.asdict(point) for point in points.values()],
            "ppo": base.ppo(),
            "rounds": rounds,
            "seconds": seconds,
        }
        result = results.get(sweep, settings)
        if result is None:
            try:
                result = measured(points, rounds, seconds)
            except RunError as error:
                failed += 1
                print(f"{sweep}: {error}", file=sys.stderr, flush=True)
                continue
            results.put(sweep, settings, result)
        report(sweep, points, result)
    print(f"\nResults in {options.out}")
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = turn_arguments("Time and memory against size.", "growth", "--sweeps")
    parser.add_argument("--n-envs", type=int, default=512, help="environments where not swept")
    parser.add_argument("--rollout-length", type=int, default=32, help="steps where not swept")
    parser.add_argument("--populations", type=int, default=20, help="populations where not swept")
    parser.add_argument("--size", type=int, default=16, help="units of a population")
    return parser.parse_args()


def measured(points: dict[int, Point], rounds: int, seconds: float) -> dict[str, Any]:
    """Times all points and the matrix product. Values are text in the result, as in JSON."""
    workers = {
        str(value): Worker(sys.executable, "_growth_worker.py", dataclasses.asdict(point), NO_CACHE)
        for value, point in points.items()
    }
    product = Worker(sys.executable, "_growth_matmul.py", {"chunk": CHUNK}, NO_CACHE)
    timings = measure({**workers, MATMUL: product}, rounds, seconds)
    rate = CHUNK * _growth_matmul.FLOPS / timings.pop(MATMUL).iteration
    found = {
        name: {**dataclasses.asdict(timing), "n_params": workers[name].lines[-1]["n_params"]}
        for name, timing in timings.items()
    }
    return {"flops_per_second": rate, "points": found}


def report(sweep: str, points: dict[int, Point], result: dict[str, Any]) -> None:
    """Prints the table of a sweep."""
    rate = result["flops_per_second"]
    print(f"\n{sweep}; float32 products of matrices: {rate / 1e9:.0f} GFLOP/s\n")
    rows = [
        [str(value), *cells(point, rate, **result["points"][str(value)])]
        for value, point in points.items()
    ]
    print_table([sweep, *HEAD], rows)
    sys.stdout.flush()


def cells(point: Point, rate: float, n_params: int, **timing: Any) -> list[str]:
    """A row but for its name."""
    taken = Timing(**timing)
    steps = point.n_envs * point.rollout_length
    share = arithmetic(n_params, steps, point.ppo()["n_epochs"]) / (rate * taken.iteration)
    return [
        f"{1e6 * taken.iteration / steps:.2f}",
        f"{taken.iteration:.3f}",
        f"{taken.first:.1f}",
        f"{taken.peak_bytes / 2**20:.0f}",
        f"{n_params:,}",
        f"{100 * share:.1f}",
    ]


def arithmetic(n_params: int, steps: int, n_epochs: int) -> int:
    """Useful operations of an iteration: a forward pass, and for each epoch three times that."""
    return 2 * n_params * steps * (1 + 3 * n_epochs)


if __name__ == "__main__":
    sys.exit(main())
