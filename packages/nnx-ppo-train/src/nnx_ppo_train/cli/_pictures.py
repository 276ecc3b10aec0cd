"""The pictures that a run leaves: learning curve, graph, and one episode."""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from nnx_graph import draw_graph
from nnx_stateful import StatefulModule
from rich.console import Console

from .._callbacks import EVALUATION_RETURN
from .._episode_recording import record_episode
from .._json_lines import read_metrics
from .._keys import Purpose, key_for
from ..presets import find_graph
from ._rendering import RenderedEnv, save_gif, thin
from ._run_config import RunConfig
from ._run_folder import RunFolder
from ._summary import TRAINING_RETURN

MAX_FRAMES = 120


def draw_pictures(
    console: Console,
    folder: RunFolder,
    env: Any,
    network: StatefulModule,
    run: RunConfig,
    metrics: Sequence[Path],
) -> None:
    """Draws all pictures of a run; one that fails is noted and the others are drawn.

    Args:
      console: where notes go.
      folder: where the pictures go.
      env: the environment.
      network: the trained network, whose episode is shown.
      run: what was done.
      metrics: the metrics file, or one of each seed.
    """

    def attempt(what: str, draw: Callable[[], None]) -> None:
        try:
            draw()
        except Exception as error:  # a picture must not lose a finished training
            reason = " ".join(str(error).split()) or type(error).__name__
            console.print(f"No {what}: {reason}", soft_wrap=True, markup=False, highlight=False)

    curve = (folder.learning_curve, metrics, folder.path.name, getattr(env, "max_return", None))
    attempt("learning curve", lambda: draw_learning_curve(*curve))
    graph = find_graph(network)
    if graph is not None:
        attempt("picture of the graph", lambda: _draw_graph(folder.graph, graph))
    length = run.train.eval.max_episode_length
    episode = (folder.episode, env, network, run.train.seed, length)
    attempt("animation", lambda: draw_episode(*episode))


def draw_learning_curve(
    path: Path, metrics: Sequence[Path], title: str, max_return: float | None
) -> None:
    """Draws the returns of training and of evaluation over the steps.

    Of one run the band is the middle half of its evaluation's episodes; of several seeds the lines
    are medians over seeds and the band is the middle half of the seeds.

    Args:
      path: the picture.
      metrics: the metrics file, or one of each seed.
      title: what to call it.
      max_return: the environment's greatest return, drawn as a line, or None.
    """
    runs = [read_metrics(file) for file in metrics]
    figure = Figure(figsize=(6.4, 4.0), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    training = _over_runs(runs, TRAINING_RETURN, 50)
    over_seeds = "" if len(runs) == 1 else f", median of {len(runs)} seeds"
    if training[0]:
        axes.plot(*training, color="0.6", label=f"training episodes{over_seeds}", zorder=1)
        low, high = (_over_runs(runs, TRAINING_RETURN, p) for p in (25, 75))
        axes.fill_between(low[0], low[1], high[1], color="0.6", alpha=0.3, linewidth=0)
    evaluation = _over_runs(runs, EVALUATION_RETURN, 50)
    if evaluation[0]:
        marker = "o" if len(evaluation[0]) < 40 else None
        axes.plot(
            *evaluation, color="C0", marker=marker, markersize=4, label=f"evaluation{over_seeds}"
        )
    if len(runs) == 1:
        band = "its middle half of episodes"
        low, high = (_over_runs(runs, f"eval/episode_reward/p{p}", 50) for p in (25, 75))
    else:
        band = "middle half of the seeds"
        low, high = (_over_runs(runs, EVALUATION_RETURN, p) for p in (25, 75))
    if low[0]:
        axes.fill_between(low[0], low[1], high[1], color="C0", alpha=0.2, label=band)
    if max_return is not None:
        axes.axhline(max_return, color="C2", linestyle="--", linewidth=1, label="maximum")
    axes.set(xlabel="environment steps", ylabel="return")
    axes.set_title(_printable(title), parse_math=False)  # a folder may be called $
    axes.xaxis.set_major_formatter(EngFormatter())
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize="small")
    axes.grid(alpha=0.3)
    figure.savefig(path)


def _printable(name: str) -> str:
    """A file name that need not be UTF-8, as text."""
    return os.fsencode(name).decode(errors="replace")


def _over_runs(
    runs: Sequence[list[dict[str, Any]]], name: str, percentile: float
) -> tuple[list[int], list[float]]:
    """Steps at which any run has a metric, and its percentile over the runs that have it there.

    A value that is not finite is below every other; a percentile that meets one is NaN, a gap in
    the line. Returns of training are NaN in older files where no episode ended: left out.
    """
    values: dict[int, list[float]] = {}
    for lines in runs:
        for line in lines:
            value = line.get(name)
            if value is not None and not (name == TRAINING_RETURN and math.isnan(value)):
                values.setdefault(line["step"], []).append(value)
    steps = sorted(values)
    return steps, [_percentile(values[step], percentile) for step in steps]


def _percentile(values: list[float], percentile: float) -> float:
    finite = sorted(value for value in values if math.isfinite(value))
    place = percentile / 100 * (len(values) - 1) - (len(values) - len(finite))
    low = math.floor(place)
    if low < 0:
        return math.nan
    high = min(low + 1, len(finite) - 1)
    return finite[low] + (place - low) * (finite[high] - finite[low])


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
