"""What verify_replay reports."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float

QUANTITIES = (
    "ratio",
    "log_likelihood",
    "value",
    "action",
    "loss",
    "carry",
    "module",
    "obs",
    "returned",
)
"""Kinds of quantities, in the order in which a report lists them."""


@dataclasses.dataclass(frozen=True)
class ReplayDeviation:
    """One deviation of a replay from its rollout.

    Attributes:
      stage: in which stage of the proof.
      quantity: what deviates, as ``carry/1/0``: a kind, and the path of a leaf.
      step: at which step of the rollout.
      row: in which environment.
      deviation: how far; relative to the largest magnitude in the row where that is above 1.
      limit: how far it may be.
    """

    stage: str
    quantity: str
    step: int
    row: int
    deviation: float
    limit: float


@dataclasses.dataclass(frozen=True)
class ReplayStage:
    """Deviations in one stage of the proof, by quantity.

    Quantities are ``ratio``, ``log_likelihood``, ``value`` and ``action`` followed by the path of
    the leaf where there are several, ``loss`` (regularization), ``carry/`` and the path of the
    leaf in the carry state after the step, ``module/`` and the path of the module and of the leaf
    in its output. The stage ``rollout`` has ``obs`` and ``returned/`` besides.

    Attributes:
      deviations: by quantity, the deviation at each step and row.
      limits: by quantity, the limit at each step and row.
    """

    deviations: Mapping[str, Float[np.ndarray, "T B"]]
    limits: Mapping[str, Float[np.ndarray, "T B"]]

    def exceeding(self) -> dict[str, Bool[np.ndarray, "T B"]]:
        """Returns where which quantity is over its limit; quantities that never are left out."""
        over = {name: ~(leaf <= self.limits[name]) for name, leaf in self.deviations.items()}
        return {name: mask for name, mask in over.items() if mask.any()}

    def largest(self, kind: str) -> float | None:
        """Returns the largest deviation of the quantities of a kind, None if there are none."""
        found = [
            float(leaf.max())
            for name, leaf in self.deviations.items()
            if name.split("/")[0] == kind
        ]
        return max(found) if found else None


@dataclasses.dataclass(frozen=True)
class ReplayReport:
    """How closely a rollout could be replayed. Printed, it is a table.

    Attributes:
      n_envs: environments B.
      rollout_length: steps T.
      float64: whether the network computed in float64.
      tolerance: the limit where nothing amplifies rounding.
      smallest_std: smallest standard deviation of an action; None if no sampler reports "sigma".
      terminations: episodes that terminated in the rollout.
      truncations: episodes that were truncated in it.
      stages: deviations by stage of the proof, in its order: ``rollout``, ``steps``, ``noise``
        (where the carry state holds noise), ``windows``, ``sequence``. Where a stage fails,
        later ones are left out. Where something is NaN, there is the one stage ``finite``, with an
        infinite deviation where it is.
      changed_variables: variables of the network that the rollout changed, RNG streams excepted.
      advanced_streams: RNG streams of the network that the rollout advanced.
    """

    n_envs: int
    rollout_length: int
    float64: bool
    tolerance: float
    smallest_std: float | None
    terminations: int
    truncations: int
    stages: Mapping[str, ReplayStage]
    changed_variables: tuple[str, ...]
    advanced_streams: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every deviation is within its limit."""
        return not any(stage.exceeding() for stage in self.stages.values())

    def worst(self) -> ReplayDeviation:
        """Returns the deviation that is the largest fraction of its limit."""
        found = [
            _worst_of(stage, name, leaf, record.limits[name])
            for stage, record in self.stages.items()
            for name, leaf in record.deviations.items()
        ]
        return max(found, key=lambda one: one.deviation / one.limit)

    def __str__(self) -> str:
        kinds = [
            kind
            for kind in QUANTITIES
            if any(stage.largest(kind) is not None for stage in self.stages.values())
        ]
        lines = [
            f"replay {'passed' if self.passed else 'FAILED'}: {self.n_envs} environments, "
            f"{self.rollout_length} steps, {self.terminations} terminations, "
            f"{self.truncations} truncations, {'float64' if self.float64 else 'float32'}",
            "".join([f"{'largest deviation':<18}", *(f"{name:>10}" for name in self.stages)]),
        ]
        for kind in kinds:
            cells = [_cell(stage.largest(kind)) for stage in self.stages.values()]
            lines.append("".join([f"{kind:<18}", *cells]))
        worst = self.worst()
        lines.append(
            f"closest to its limit: {worst.quantity} in {worst.stage}, step {worst.step}, row "
            f"{worst.row}: {worst.deviation:.1e}, limit {worst.limit:.1e}"
        )
        return "\n".join(lines)


class ReplayError(AssertionError):
    """A replay deviates from its rollout; the message says where, how far, and what to do.

    Attributes:
      report: the report up to the stage that failed; None if there is none.
    """

    def __init__(self, message: str, report: ReplayReport | None = None):
        super().__init__(message)
        self.report = report


def _worst_of(stage: str, name: str, leaf: np.ndarray, limit: np.ndarray) -> ReplayDeviation:
    step, row = np.unravel_index(np.argmax(leaf / limit), leaf.shape)
    return ReplayDeviation(
        stage, name, int(step), int(row), float(leaf[step, row]), float(limit[step, row])
    )


def _cell(value: float | None) -> str:
    return f"{'':>10}" if value is None else f"{value:>10.1e}"
