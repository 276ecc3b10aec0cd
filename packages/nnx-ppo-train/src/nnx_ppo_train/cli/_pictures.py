"""The pictures that a run leaves: learning curve, graph, and one episode."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from nnx_graph import draw_graph
from nnx_stateful import StatefulModule
from rich.console import Console

from .._episode_recording import record_episode
from .._keys import Purpose, key_for
from ..presets import find_graph
from ._metrics_file import read_metrics
from ._rendering import RenderedEnv, save_gif, thin
from ._run_folder import RunFolder

MAX_FRAMES = 120


def draw_pictures(
    console: Console, folder: RunFolder, env: Any, network: StatefulModule, seed: int, length: int
) -> None:
    """Draws all pictures of a run; one that fails is noted and the others are drawn.

    Args:
      console: where notes go.
      folder: the run.
      env: its environment.
      network: the trained network.
      seed: the run's seed.
      length: steps after which the episode is cut.
    """

    def attempt(what: str, draw: Callable[[], None]) -> None:
        try:
            draw()
        except Exception as error:  # a picture must not lose a finished training
            reason = " ".join(str(error).split()) or type(error).__name__
            console.print(f"No {what}: {reason}", soft_wrap=True, markup=False, highlight=False)

    attempt("learning curve", lambda: draw_learning_curve(folder, getattr(env, "max_return", None)))
    graph = find_graph(network)
    if graph is not None:
        attempt("picture of the graph", lambda: _draw_graph(folder.graph, graph))
    attempt("animation", lambda: draw_episode(folder.episode, env, network, seed, length))


def draw_learning_curve(folder: RunFolder, max_return: float | None) -> None:
    """Draws the returns of training and of evaluation over the steps.

    Args:
      folder: the run, which has metrics.
      max_return: the environment's greatest return, drawn as a line, or None.
    """
    lines = read_metrics(folder.metrics)
    figure = Figure(figsize=(6.4, 4.0), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    _plot(axes, lines, "train/episode_reward", color="0.6", label="training episodes", zorder=1)
    mean = "eval/episode_reward/mean"
    low, high = "eval/episode_reward/p25", "eval/episode_reward/p75"
    evaluations = [line for line in lines if line.get(mean) is not None]
    marker = "o" if len(evaluations) < 40 else None
    _plot(axes, lines, mean, color="C0", marker=marker, markersize=4, label="evaluation")
    if any(line.get(low) is not None for line in evaluations):
        axes.fill_between(
            [line["step"] for line in evaluations],
            [line[low] for line in evaluations],
            [line[high] for line in evaluations],
            color="C0",
            alpha=0.2,
            label="its middle half of episodes",
        )
    if max_return is not None:
        axes.axhline(max_return, color="C2", linestyle="--", linewidth=1, label="maximum")
    axes.set(xlabel="environment steps", ylabel="return", title=folder.path.name)
    axes.xaxis.set_major_formatter(EngFormatter())
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize="small")
    axes.grid(alpha=0.3)
    figure.savefig(folder.learning_curve)


def draw_episode(path: Path, env: Any, network: StatefulModule, seed: int, length: int) -> None:
    """Animates one deterministic episode.

    Raises:
      ValueError: if the environment can neither draw nor render.
    """
    rendered = RenderedEnv(env)
    trajectory = record_episode(env, network, length, key_for(seed, Purpose.VIDEO))
    frames = rendered.render(thin(trajectory, MAX_FRAMES), height=240, width=320)
    save_gif(path, frames)


def _draw_graph(path: Path, graph: Any) -> None:
    figure = Figure(figsize=(7.0, 5.0), dpi=120, layout="constrained")
    draw_graph(graph, figure.add_subplot())
    figure.savefig(path)


def _plot(axes: Any, lines: list[dict[str, Any]], name: str, **style: Any) -> None:
    points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), **style)
