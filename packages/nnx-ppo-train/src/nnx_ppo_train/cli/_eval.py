"""``nnx-ppo eval``."""

import jax
from rich.console import Console
from rich.table import Table

from .._checkpoint import latest_checkpoint, load_checkpoint
from .._evaluation import eval_rollout
from .._keys import Purpose, key_for
from .._validate import check_whole_number
from ._arguments import EvalArguments
from ._errors import user_errors
from ._resolve import make_run
from ._run_config import read_run_config
from ._run_folder import find_run_folder
from ._session import share

PERCENTILES = (0, 25, 50, 75, 100)


def evaluate(arguments: EvalArguments, console: Console) -> int:
    """Evaluates a run's newest checkpoint; returns the exit code.

    Args:
      arguments: what the flags say.
      console: where to print.

    Raises:
      UsageError: if there is no such run, no checkpoint in it, or one that does not fit.
    """
    folder = find_run_folder(arguments.run)
    episodes, seed = arguments.episodes, arguments.seed
    with user_errors():
        check_whole_number(episodes, "--episodes", at_least=1)
        check_whole_number(seed, "--seed", at_least=0)
        run = read_run_config(folder.config)
        length = arguments.max_episode_length
        if length is None:
            length = run.train.eval.max_episode_length
        check_whole_number(length, "--max-episode-length", at_least=1)
    env, network = make_run(run)
    with user_errors():
        checkpoint = latest_checkpoint(folder.checkpoints)
        state = load_checkpoint(checkpoint, network, env, run.train)
    key = key_for(seed, Purpose.EVALUATION)
    metrics = eval_rollout(
        env,
        state.networks,
        episodes,
        length,
        key,
        PERCENTILES,
        stochastic=not arguments.deterministic,
    )
    values = {name: float(value) for name, value in jax.device_get(metrics).items()}
    console.print(_table(values))
    how = "deterministic" if arguments.deterministic else "sampled"
    mean = values["eval/episode_reward/mean"]
    console.print(
        f"{run.network} on {run.env}, {checkpoint}\n{episodes} {how} episodes from seed {seed}, "
        f"mean return {mean:.4g}{share(mean, env)}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    return 0


def _table(values: dict[str, float]) -> Table:
    table = Table("", "mean", "std", "least", "25 %", "median", "75 %", "most")
    columns = ("mean", "std", *(f"p{level}" for level in PERCENTILES))
    prefix = "eval/episode_reward"
    rewards = [name for name in values if name.startswith(prefix) and name.endswith("/mean")]
    rows = {name.removesuffix("/mean"): name for name in rewards} | {"eval/lifespan": ""}
    for row in rows:
        label = row.replace(prefix, "return").replace("eval/lifespan", "steps")
        table.add_row(label, *(f"{values[f'{row}/{column}']:.4g}" for column in columns))
    return table
