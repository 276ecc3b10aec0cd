"""The record of a check that passed."""

import dataclasses


@dataclasses.dataclass(frozen=True, repr=False)
class CheckReport:
    """What a check looked at. There is one only where the check passed: else it raises.

    Printed, it is a short summary, so an interactive session shows what was checked.

    Attributes:
      subject: the check and what it looked at, such as ``"check_env(CartPole)"``.
      checked: what holds, one line each.
      skipped: what could not be checked, and why, one line each.

    Example:
      >>> CheckReport("check_env(Arm)", ("reset",), ("step: no action_size",))
      check_env(Arm): passed
        checked  reset
        skipped  step: no action_size
    """

    subject: str
    checked: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True, for symmetry with reports that have failures."""
        return True

    def __repr__(self) -> str:
        lines = [f"{self.subject}: passed"]
        lines += [f"  checked  {line}" for line in self.checked]
        lines += [f"  skipped  {line}" for line in self.skipped]
        return "\n".join(lines)
