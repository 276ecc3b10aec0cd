"""What metrics say about a whole run: its last returns, its price, and what was left out."""

import math
from collections.abc import Sequence
from typing import Any

from .._callbacks import EVALUATION_RETURN
from ._run_config import RunConfig

TRAINING_RETURN = "train/episode_reward"
LEFT_OUT = "eval/nonfinite"
TASKS = {
    "time/train": "training",
    "time/evaluation": "evaluation",
    "time/video": "videos",
    "time/checkpoint": "checkpoints",
    "time/host": "host",
}
DEAR = 1 / 3  # share of evaluation above which a run is warned
SHORT = 10.0  # s, below which shares say more about compilation than about the run
_KINDS = ("observation", "carry", "output", "reward")

Lines = Sequence[dict[str, Any]]


def last_value(lines: Lines, name: str) -> tuple[float, int] | None:
    """Returns a metric's last value, NaN included, and its step; None if no line has it."""
    for line in reversed(lines):
        if name in line:
            return line[name], line["step"]
    return None


def result_line(lines: Lines, env: Any) -> str:
    """Returns the last evaluation in words, or the training return where there is none."""
    for what, name in (
        ("Deterministic evaluation return", EVALUATION_RETURN),
        ("Return of training episodes", TRAINING_RETURN),
    ):
        found = last_value(lines, name)
        if found is not None:
            value, step = found
            text = f"{what}: {value:.4g}{share(value, env)} at step {step:,}"
            return text + (_left_out_of(lines) if name == EVALUATION_RETURN else "")
    return "No episode has ended yet, so there is no return to report."


def nonfinite_lines(runs: Sequence[Lines]) -> list[str]:
    """Returns what was left out of the runs since it was not finite; nothing if nothing was."""
    samples, updates = (_total(runs, f"nonfinite/{name}") for name in ("samples", "updates"))
    if not samples and not updates:
        return []
    steps = sum(lines[-1]["step"] for lines in runs if lines)
    kinds = {kind: _total(runs, f"nonfinite/{kind}") for kind in _KINDS}
    found = ", ".join(f"{kind} {count:,.0f}" for kind, count in kinds.items() if count)
    return [
        f"Left out, not finite: {samples:,.0f} samples ({samples / max(steps, 1):.2g} of all), "
        f"{updates:,.0f} updates{f' ({found})' if found else ''}"
    ]


def time_lines(runs: Sequence[Lines], run: RunConfig) -> list[str]:
    """Returns where the time of the runs went, and a warning if evaluation took much of it.

    Args:
      runs: the lines of metrics of each run; those of seeds that ran together hold the same times.
      run: what was done.
    """
    seconds = {task: _total(runs, task) / max(len(runs), 1) for task in TASKS}
    total = sum(seconds.values())
    if not total:
        return []
    shares = [f"{TASKS[task]} {part / total:.0%}" for task, part in seconds.items() if part]
    said = [f"Time: {', '.join(shares)}"]
    part = seconds["time/evaluation"] / total
    if part > DEAR and total > SHORT:
        settings = run.train.eval
        said.append(
            f"Warning: evaluation takes {part:.0%} of the time; raise --eval.every-steps (now "
            f"{settings.every_steps}), or lower --eval.n-envs ({settings.n_envs}) or "
            f"--eval.max-episode-length ({settings.max_episode_length})"
        )
    return said


def share(value: float, env: Any) -> str:
    """How much of the environment's greatest return that is, where it is known."""
    greatest = getattr(env, "max_return", None)
    if not greatest or greatest < 0 or not math.isfinite(value):
        return ""
    return f" of {greatest:g}, {value / greatest:.0%} of the maximum"


def _left_out_of(lines: Lines) -> str:
    found = last_value(lines, LEFT_OUT)
    if found is None or not found[0] > 0:
        return ""
    return f"; {found[0]:.2%} of its episodes were left out, not finite"


def _total(runs: Sequence[Lines], name: str) -> float:
    values = [line.get(name, 0.0) for lines in runs for line in lines]
    return sum(value for value in values if math.isfinite(value))
