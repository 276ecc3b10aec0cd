"""verify_replay: the proof that the loss can replay what a network did in a rollout."""

import contextlib
from typing import Any

import jax
import numpy as np
from nnx_stateful import StatefulModule
from nnx_stateful.testing import to_float64

from ._boundary import check_boundary
from ._replay_arrays import Deviations, Quantity, has_noise, widened
from ._replay_blame import Fault, describe, execution_order, first_fault
from ._replay_env import EndingEnv
from ._replay_report import ReplayError, ReplayReport, ReplayStage
from ._replay_rollout import RolledOut, UnrollFn, roll_out, rollout_deviations, shift_of_done
from ._replay_runs import WINDOW, Replays
from ._rollout import unroll_env
from ._validate import check_number, check_whole_number


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
    are cut at random, so that rows are reset at different steps. Then the proof goes by stages:

    1. ``rollout``: what was stored and returned is what the network saw, did and carried on.
    2. ``steps``: every step, replayed by ``unroll`` from the carry state with which it began,
       gives the stored output, the output of every module, and the next carry state.
    3. ``noise``: so it does if the noise keys in the carry state are others.
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
      tolerance: limit of deviations; 1e-4, or 1e-10 in float64, by default.
      unroll_fn: the rollout function to prove, with the arguments and results of
        :func:`unroll_env`. It must store what the network emits as rollout_extras.

    Returns:
      The deviations and their limits. They are all within them, or there would be an error.

    Raises:
      ReplayError: where a deviation exceeds its limit. An AssertionError; it names the first
        module, in the order of execution, that deviates, step, row, deviation and limit, and
        says what to do. Its ``report`` has the stages so far.
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
    if tolerance is None:
        tolerance = 1e-10 if float64 else 1e-4
    check_number(tolerance, "verify_replay: tolerance", above=0.0)
    check_boundary(env, networks, n_envs, combine_advantages=True)
    wide = jax.enable_x64(True) if float64 else contextlib.nullcontext()
    with wide, jax.default_matmul_precision("highest"):
        if float64:
            networks = to_float64(networks)
        rolled = roll_out(
            EndingEnv(env, longest=rollout_length - 1),
            networks,
            n_envs,
            rollout_length,
            seed,
            unroll_fn,
            widened if float64 else lambda tree: tree,
        )
        return _Proof(networks, rolled, float64, float(tolerance)).run()


class _Proof:
    """One proof: the stages so far, and what to say where one fails."""

    def __init__(
        self, networks: StatefulModule, rolled: RolledOut, float64: bool, tolerance: float
    ):
        self._networks = networks
        self._rolled = rolled
        self._float64 = float64
        self._tolerance = tolerance
        self._stages: dict[str, ReplayStage] = {}

    def run(self) -> ReplayReport:
        """Goes through the stages; raises at the first that fails."""
        self._check_ends()
        self._add("rollout", rollout_deviations(self._rolled))
        replays = Replays(self._networks, self._rolled, self._float64)
        self._add("steps", replays.steps())
        if has_noise(self._rolled.start):
            self._add("noise", replays.steps_with_other_noise())
        self._add("windows", replays.windows())
        self._add("sequence", replays.sequence(), replays.growth())
        return self._report()

    def _check_ends(self) -> None:
        if not self._rolled.stored.done[:-1].any():
            raise ReplayError(
                "verify_replay: expected episodes to end inside the rollout, got a done that is "
                "never set before the last step, though every environment ended an episode; "
                "store in Transition.done where environments end, terminated or truncated"
            )

    def _add(self, stage: str, deviations: Deviations, growth: Deviations | None = None) -> None:
        limits = {
            name: self._limit(name) * (1.0 if growth is None else growth[name])
            for name in deviations
        }
        self._stages[stage] = ReplayStage(_by_name(deviations), _by_name(limits))
        if self._stages[stage].exceeding():
            order = execution_order(self._networks, self._rolled)
            fault = first_fault(deviations, limits, order)
            raise ReplayError(self._message(stage, fault), self._report())

    def _limit(self, quantity: Quantity) -> np.ndarray:
        stds = self._rolled.trace.smallest_std
        limit = np.full(self._rolled.stored.done.shape, self._tolerance)
        amplified = quantity.kind in ("ratio", "log_likelihood") or "likelihood" in quantity.leaf
        if stds is None or not amplified:
            return limit
        return limit / np.minimum(1.0, stds)

    def _report(self) -> ReplayReport:
        rolled, stored = self._rolled, self._rolled.stored
        steps, n_envs = stored.done.shape
        stds = rolled.trace.smallest_std
        return ReplayReport(
            n_envs=n_envs,
            rollout_length=steps,
            float64=self._float64,
            tolerance=self._tolerance,
            smallest_std=None if stds is None else float(stds.min()),
            terminations=int((stored.done & ~stored.truncated).sum()),
            truncations=int(stored.truncated.sum()),
            stages=dict(self._stages),
            changed_variables=rolled.changed,
            advanced_streams=rolled.advanced,
        )

    def _message(self, stage: str, fault: Fault) -> str:
        what, remedy = self._findings(stage, fault)
        others = ", ".join(f"{name} ({by:.2g})" for name, by in list(fault.others.items())[:8])
        return (
            f"verify_replay: {what}. First at step {fault.step}, row {fault.row}: "
            f"{fault.quantity.name} deviates by {fault.deviation:.3g}, limit {fault.limit:.3g}"
            + (f"; at that step also {others}" if others else "")
            + f". {remedy}"
        )

    def _findings(self, stage: str, fault: Fault) -> tuple[str, str]:
        """What is wrong, and what to do about it."""
        if stage == "rollout":
            return _rollout_findings(fault, self._rolled)
        module = "the network" if fault.module is None else describe(self._networks, fault.module)
        part = "carry state" if fault.quantity.kind == "carry" else "output"
        found, remedy = _REPLAYED[stage]
        if stage == "steps" and self._rolled.changed:
            remedy = (
                f"The rollout changed the variables {', '.join(self._rolled.changed)}: call "
                "update_statistics after the loss and its gradient step, not before"
            )
        elif stage == "steps" and self._rolled.advanced:
            remedy += f". RNG streams that the rollout advanced: {', '.join(self._rolled.advanced)}"
        return f"the {part} of {module} {found}", remedy


_REPLAYED = {
    "steps": (
        "is another in the replay of a single step, from the carry state, observation and "
        "rollout_extras of the rollout",
        "Look for state kept outside of the carry (an attribute, an RNG stream), for noise that is "
        "drawn although rollout_extras are given, and for an unroll that differs from __call__; "
        "nnx_stateful.testing.check_stateful_module checks the module alone",
    ),
    "noise": (
        "depends, in the replay, on the noise key in the carry state: noise is drawn anew although "
        "rollout_extras are given",
        "Emit what was drawn as rollout_extras, and use it in place of a new draw where "
        "rollout_extras are not None",
    ),
    "windows": (
        f"is another in the replay of {WINDOW} steps, though single steps agree",
        "Look at its own unroll: the carry of a row must be reset after the step at which done is "
        "set, neither before that step nor after the next one; without an unroll of its own a "
        "module gets one that does so",
    ),
    "sequence": (
        f"is another in the replay of the whole rollout, though windows of {WINDOW} steps agree",
        "Look at its own unroll for memory that reaches back further than a window, such as a "
        "delay that reads across a reset; check with float64=True whether it is rounding",
    ),
}
"""By stage: what was found of a module, and what to do about it."""


def _rollout_findings(fault: Fault, rolled: RolledOut) -> tuple[str, str]:
    kind, step = fault.quantity.kind, fault.step
    if kind == "obs":
        return (
            "Transition.obs is not what the network was given",
            "Store the observation on which the network acted, not the one after it",
        )
    if kind == "returned":
        return (
            "the carry state that unroll_fn returned is not the one after its last step",
            "Return next_state of the last step, with the rows of its done reset",
        )
    if kind != "carry":
        return (
            "Transition.network_output is not what the network returned",
            "Store out.output of the step as it is",
        )
    if step == 0:
        return (
            "the first step of unroll_fn began with another carry state than it was given",
            "The loss replays from the carry state that unroll_fn is given: begin with that one",
        )
    shift = shift_of_done(rolled)
    wrong = "does not say which rows were reset"
    if shift:
        wrong = f"is stored one step {'late' if shift > 0 else 'early'}"
    return (
        f"Transition.done {wrong}: step {step} began with a carry state that is not the one after "
        f"step {step - 1} with the rows of its done reset",
        "Reset the rows of done with reset_rows(networks, out.next_state, done), and store that "
        "very done with the step",
    )


def _by_name(arrays: Deviations) -> dict[str, np.ndarray]:
    return {quantity.name: leaf for quantity, leaf in arrays.items()}
