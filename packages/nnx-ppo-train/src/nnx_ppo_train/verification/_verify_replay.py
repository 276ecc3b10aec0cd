"""verify_replay: the proof that the loss can replay what a network did in a rollout."""

import contextlib
from typing import Any

import jax
from nnx_stateful import PyTree, StatefulModule
from nnx_stateful.testing import to_float64

from .._boundary import check_boundary
from .._config import LARGEST_SEED
from .._rollout import unroll_env
from .._validate import check_bool, check_number, check_whole_number, shown
from ._arrays import widened
from ._env import EndingEnv
from ._proof import Proof
from ._report import ReplayReport
from ._traced_rollout import RolloutSetup, UnrollFn, roll_out


def verify_replay(
    env: Any,
    networks: StatefulModule,
    *,
    n_envs: int = 8,
    rollout_length: int = 16,
    seed: int = 0,
    float64: bool = False,
    tolerance: float | None = None,
    unroll_fn: UnrollFn = unroll_env,
) -> ReplayReport:
    """Proves that the loss can replay what a network does in a rollout.

    The rollout function runs on a copy of the network that notes what it sees and does. Episodes
    are cut at random, so that rows are reset at different steps. What is NaN in it cannot be shown
    to agree with anything, and is refused. Then the proof goes by stages:

    1. ``rollout``: what was stored and returned is what the network saw, did and carried on.
    2. ``steps``: every step, replayed by ``unroll`` from the carry state with which it began,
       gives the stored output, the output of every module, and the next carry state.
    3. ``noise``: so it does if the noise keys in the carry state are others, as a replay draws
       nothing.
    4. ``windows``: so do all windows of 3 steps, that is, with resets inside.
    5. ``sequence``: so does the whole rollout from its first carry state, as in the loss. Here
       rounding may grow from step to step, so limits are multiplied by the factor by which the
       network has amplified, up to that step, a change of all its inputs by 64 units of rounding.

    Everything up to ``windows`` begins with the rollout's own carry states, so that rounding does
    not grow. Limits are ``tolerance``; for ratios and log-likelihoods it is divided by the
    smallest standard deviation of the row's actions where that is below 1, as small ones amplify
    rounding. Matrix products run at the highest precision.

    Args:
      env: the environment, not vectorised.
      networks: the network; it is left as it is.
      n_envs: environments B.
      rollout_length: steps T, at least 2.
      seed: of initial states, noise and ends of episodes.
      float64: compute in float64, in which no fault can hide behind rounding. The network's
        parameters and inputs are widened; environments keep the dtypes of their states.
      tolerance: limit of deviations; 1e-4, or 1e-10 in float64, by default. A network that
        computes in less than float32 needs a larger one.
      unroll_fn: the rollout function to prove, with the arguments and results of
        :func:`unroll_env`. It must store what the network emits as rollout_extras.

    Returns:
      The deviations and their limits. They are all within them, or there would be an error.

    Raises:
      ReplayError: where a deviation exceeds its limit, or something is NaN. An AssertionError; it
        names the first module, in the order of execution, that deviates, step, row, deviation and
        limit, and says what to do. Its ``report`` has the stages so far.
      RuntimeError: where the network writes a variable in a call; it names module and variable.
      TypeError, ValueError: where an argument is of the wrong kind or out of range, or network
        and environment do not fit together.

    Example:
      >>> from flax import nnx
      >>> from nnx_ppo_train.envs import make_env
      >>> from nnx_ppo_train.presets import make_network
      >>> env = make_env("cartpole")
      >>> report = verify_replay(env, make_network("gru", env, nnx.Rngs(0)), n_envs=4)
      >>> report.passed, report.worst().deviation < 1e-4
      (True, True)
    """
    check_whole_number(n_envs, "verify_replay: n_envs", 1)
    check_whole_number(rollout_length, "verify_replay: rollout_length", 2)
    check_bool(float64, "verify_replay: float64")
    if tolerance is None:
        tolerance = 1e-10 if float64 else 1e-4
    check_number(tolerance, "verify_replay: tolerance", above=0.0)
    check_whole_number(seed, "verify_replay: seed", 0, LARGEST_SEED)
    if not callable(unroll_fn):
        raise TypeError(f"verify_replay: unroll_fn: expected a function, got {shown(unroll_fn)}")
    check_boundary(env, networks, n_envs, combine_advantages=True)
    wide = jax.enable_x64(True) if float64 else contextlib.nullcontext()
    with wide, jax.default_matmul_precision("highest"):
        if float64:
            networks = to_float64(networks)
        setup = RolloutSetup(n_envs, rollout_length, seed, widened if float64 else _as_it_is)
        rolled = roll_out(EndingEnv(env, rollout_length - 1), networks, setup, unroll_fn)
        return Proof(networks, rolled, float64, float(tolerance)).run()


def _as_it_is(tree: PyTree) -> PyTree:
    return tree
