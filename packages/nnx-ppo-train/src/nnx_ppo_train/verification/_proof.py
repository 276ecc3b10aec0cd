"""The proof itself: the stages one after the other, and the error where one fails."""

import numpy as np
from nnx_stateful import StatefulModule

from ._arrays import Deviations, Quantity, has_noise
from ._blame import execution_order, first_fault
from ._findings import message
from ._finite import nan_deviations, nan_fault, nan_message
from ._report import ReplayError, ReplayReport, ReplayStage
from ._runs import Replays
from ._traced_rollout import RolledOut, rollout_deviations


class Proof:
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
        self._check_finite()
        self._check_ends()
        self._add("rollout", rollout_deviations(self._rolled))
        replays = Replays(self._networks, self._rolled, self._float64)
        self._add("steps", replays.steps())
        if has_noise(self._rolled.start):
            self._add("noise", replays.steps_with_other_noise())
        self._add("windows", replays.windows())
        self._add("sequence", replays.sequence(), replays.growth())
        return self._report()

    def _check_finite(self) -> None:
        found = nan_deviations(self._rolled)
        limits = {name: self._limit(name) for name in found}
        stage = ReplayStage(_by_name(found), _by_name(limits))
        if stage.exceeding():
            self._stages["finite"] = stage
            fault = nan_fault(self._networks, self._rolled, found)
            raise ReplayError(nan_message(self._networks, self._rolled, fault), self._report())

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
            raise ReplayError(message(stage, fault, self._networks, self._rolled), self._report())

    def _limit(self, quantity: Quantity) -> np.ndarray:
        stds = self._rolled.trace.smallest_std
        limit = np.full(self._rolled.stored.done.shape, self._tolerance)
        amplified = quantity.kind in ("ratio", "log_likelihood") or "likelihood" in quantity.leaf
        if stds is None or not amplified:
            return limit
        return limit / np.where(stds > 0.0, np.minimum(1.0, stds), 1.0)  # also where it is NaN

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


def _by_name(arrays: Deviations) -> dict[str, np.ndarray]:
    return {quantity.name: leaf for quantity, leaf in arrays.items()}
