"""How much less ``nnx-ppo train --seeds N`` costs than N runs one after the other.

    uv run python benchmarks/many_seeds.py [--seeds 8] [--total-steps 1000000] [--env ENV] ...

Both ways are timed as whole commands, start, compilation, evaluations, checkpoints and pictures
included, each with a compilation cache of its own that is empty at first: of the single runs only
the first has to compile. Prints the ratio and writes it as JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    arguments = _parsed()
    seeds = range(arguments.seeds)
    with tempfile.TemporaryDirectory() as place:
        alone = [_timed(Path(place), "alone", arguments, seed, 1) for seed in seeds]
        together = _timed(Path(place), "together", arguments, 0, arguments.seeds)
    result = {
        "env": arguments.env,
        "network": arguments.network,
        "total_steps": arguments.total_steps,
        "seeds": arguments.seeds,
        "alone_seconds": alone,
        "together_seconds": together,
        "ratio": together / sum(alone),
    }
    print(f"one after the other  {sum(alone):7.1f} s  ({', '.join(f'{s:.1f}' for s in alone)})")
    print(f"together             {together:7.1f} s")
    print(f"together / one after the other = {result['ratio']:.2f}")
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def _timed(place: Path, cache: str, arguments: argparse.Namespace, seed: int, count: int) -> float:
    command = [
        *(sys.executable, "-m", "nnx_ppo_train.cli", "train"),
        *("--env", arguments.env, "--network", arguments.network, "--seed", str(seed)),
        *("--total-steps", str(arguments.total_steps), "--run-dir", f"{cache}_{seed}"),
        *(("--seeds", str(count)) if count > 1 else ()),
    ]
    environment = os.environ | {"XDG_CACHE_HOME": str(place / cache)}
    started = time.perf_counter()
    subprocess.run(command, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--total-steps", type=int, default=1_000_000)
    parser.add_argument("--env", default="cartpole-positions")
    parser.add_argument("--network", default="graph")
    parser.add_argument("--json", type=Path, default=Path("many_seeds.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
