"""The proof that a network's rollout can be replayed by the loss."""

from ._report import ReplayDeviation, ReplayError, ReplayReport, ReplayStage
from ._verify_replay import verify_replay

__all__ = ["ReplayDeviation", "ReplayError", "ReplayReport", "ReplayStage", "verify_replay"]
