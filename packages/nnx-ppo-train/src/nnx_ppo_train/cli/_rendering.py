"""Frames of an episode: by the environment's own ``render``, or by its ``draw``."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.animation import PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..wrappers._wrapper import Wrapper

DPI = 100
LONGEST = 8.0  # s that an animation may take
SLOWEST, FASTEST = 0.4, 0.04  # s per frame


class RenderedEnv(Wrapper):
    """An environment that can be rendered, whether it has ``render`` or only ``draw``.

    Args:
      env: the environment.

    Raises:
      ValueError: if it has neither.
    """

    def __init__(self, env: Any):
        super().__init__(env)
        if not (callable(getattr(env, "render", None)) or callable(getattr(env, "draw", None))):
            raise ValueError(
                f"{type(self.unwrapped).__name__}: expected an environment with draw(ax, state) or "
                "render(trajectory, height, width), it has neither"
            )

    def reset(self, rng: Any) -> Any:
        return self.env.reset(rng)

    def step(self, state: Any, action: Any) -> Any:
        return self.env.step(state, action)

    def render(self, trajectory: Sequence[Any], **options: Any) -> list[np.ndarray]:
        """Returns one frame (height, width, 3) per state.

        Args:
          trajectory: states of a single environment.
          **options: ``height`` and ``width`` in pixels, and what else the environment's own
            ``render`` takes.
        """
        if callable(getattr(self.env, "render", None)):
            return [np.asarray(frame) for frame in self.env.render(list(trajectory), **options)]
        return draw_frames(self.env, trajectory, **options)


def draw_frames(
    env: Any, trajectory: Sequence[Any], *, height: int = 240, width: int = 320
) -> list[np.ndarray]:
    """Draws every state with the environment's ``draw(ax, state)``; frames (height, width, 3)."""
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, layout="tight")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    frames = []
    for state in trajectory:
        env.draw(axes, state)
        canvas.draw()
        figure.set_layout_engine("none")  # once: laying out each frame is slow, and jitters
        frames.append(np.array(canvas.buffer_rgba())[..., :3])
    return frames


def save_gif(path: Path, frames: Sequence[np.ndarray]) -> None:
    """Writes an animation.

    Args:
      path: the file.
      frames: arrays (height, width, 3) uint8 of one size, at least one.
    """
    height, width = frames[0].shape[:2]
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    image = figure.figimage(frames[0])
    pause = min(max(LONGEST / len(frames), FASTEST), SLOWEST)
    writer = PillowWriter(fps=1 / pause)  # type: ignore[arg-type]
    with writer.saving(figure, str(path), DPI):
        for frame in frames:
            image.set_data(frame)
            writer.grab_frame()


def thin(trajectory: Sequence[Any], at_most: int) -> list[Any]:
    """Every k-th state, such that no more than ``at_most`` are left, and always the last one."""
    stride = max(1, math.ceil((len(trajectory) - 1) / max(1, at_most - 1)))
    return [*trajectory[:-1][::stride], trajectory[-1]]
