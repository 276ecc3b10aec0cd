"""Pictures of what populations put out over time; matplotlib is imported when they are drawn."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from nnx_stateful import ACTIVATION_KEY

from .._declaration._hints import shown
from .._declaration._numbers import whole_number
from ._figure import (
    FONT,
    SMALLEST_FONT,
    check_axes,
    check_matplotlib,
    inches,
    new_axes,
    text_width,
)
from ._text import printable

Kind = Literal["raster", "trace"]

_PREFIX = "populations/"
_FEW = 4  # units that are drawn one by one
_LOWEST = {"raster": 0.15, "trace": 0.3}  # inches of a band
_UNIT = 0.045  # inches of a band of one unit; it grows with the square root
_HIGHEST = 0.6
_ENOUGH = {"raster": 6.5, "trace": 9.0}  # inches of all bands together, if they can be so thin:
_THINNEST = 0.1  # inches of a band
_SPACE = 0.05  # inches between bands
_WIDTH = 5.5  # inches of new axes
_LINE, _SPREAD = "#44546a", "#9db4d0"
_SAYS = {
    "raster": "red positive, blue negative; at the right the largest absolute value of each",
    "trace": "single units, or their mean ± one standard deviation; at the right the range of each",
}


def draw_activity(
    recording: Mapping[str, Any],
    ax: Any = None,
    *,
    populations: Iterable[str] | None = None,
    kind: Kind = "raster",
    row: int = 0,
) -> Any:
    """Draws the output of each population over time, one band below the other.

    A raster has a line for each unit, blue where the output is negative and red where it is
    positive, as strong as it is beside the largest absolute value of the population, which is the
    number at the right. A trace has a line for each unit where there are up to four, and otherwise
    the mean over the units within one standard deviation; the numbers at the right are the range
    of what is drawn.

    Args:
      recording: outputs (T, size) or (T, B, size) by population: ``out.metrics["populations"]`` of
        an unrolled graph that ``with_recording`` made, or what ``extract_activations`` finds in the
        metrics of a network that contains one graph.
      ax: matplotlib axes; drawn at their size as it is. None for axes on a pyplot figure of fitting
        size.
      populations: names of those to draw, in this order, or one name; by default all of them.
      kind: ``"raster"`` or ``"trace"``.
      row: of the batch, where the outputs have a batch axis.

    Returns:
      The axes; their x axis is the step.

    Raises:
      ValueError: if a population is not in the recording, there is none at all, lengths differ, an
        output has another number of axes, or the row does not exist; for another ``kind``.
      TypeError: if the recording is no dict of arrays by population, or another argument is of
        another kind.
      ImportError: without matplotlib, which ``pip install nnx-graph[drawing]`` brings.

    Example:
      >>> watched = with_recording(graph)  # doctest: +SKIP
      >>> out = watched.unroll(watched.initialize_state(1), xs)  # doctest: +SKIP
      >>> draw_activity(out.metrics["populations"])  # doctest: +SKIP
    """
    check_matplotlib("draw_activity")
    check_axes("draw_activity", ax)
    if not isinstance(kind, str) or kind not in _LOWEST:
        raise ValueError(
            f"draw_activity: kind: expected one of {sorted(_LOWEST)}, got {shown(kind)}; choose one"
        )
    outputs = _outputs(recording, populations, row)
    heights = _heights(outputs.values(), kind)
    needed = sum(heights) + _SPACE * len(heights)
    names = [printable(name) for name in outputs]
    if ax is None:
        left = max(map(text_width, names)) + 0.15
        ax = new_axes(_WIDTH, max(0.6, needed), (left, 0.45, 1.0, 0.3))
    tightest = (min(heights) + _SPACE) * inches(ax)[1] / needed
    draw = _draw_raster if kind == "raster" else _draw_trace
    edge, middles, ranges = 0.0, [], []
    for output, height in zip(outputs.values(), heights, strict=True):
        ranges.append(draw(ax, output, edge, edge + height))
        middles.append(edge + height / 2)
        edge += height + _SPACE
    steps = next(iter(outputs.values())).shape[0]
    ax.set(xlim=(-0.5, steps - 0.5), ylim=(edge - _SPACE / 2, -_SPACE / 2))
    font = max(SMALLEST_FONT, min(FONT, 0.7 * 72 * tightest))
    _label(ax, middles, (names, ranges), font, _SAYS[kind])
    return ax


def _outputs(
    recording: Mapping[str, Any], populations: Iterable[str] | None, row: int
) -> dict[str, Float[np.ndarray, "T size"]]:
    """The outputs of one row, by population."""
    found = _by_population(recording)
    row = whole_number("draw_activity: row", row, 0, "choose a row of the batch")
    names = _names(found if populations is None else populations)
    if not names:
        raise ValueError(
            "draw_activity: expected at least one population, got none; pass what a graph made by "
            "with_recording puts in out.metrics['populations']"
        )
    outputs: dict[str, np.ndarray] = {}
    for name in names:
        if not isinstance(name, str) or name not in found:
            raise ValueError(
                f"draw_activity: populations: expected names in the recording, got {shown(name)}; "
                f"there are {list(found)}"
            )
        where = f"draw_activity: output of {shown(name)}"
        output = _array(where, found[name])
        if output.ndim not in (2, 3):
            raise ValueError(
                f"{where}: expected shape (T, size) or (T, B, size), got {output.shape}; record "
                "what unroll returns"
            )
        if output.ndim == 3:
            if row >= output.shape[1]:
                raise ValueError(
                    f"{where}: expected a row below {output.shape[1]}, got {row}; choose a row"
                )
            output = output[:, row]
        outputs[name] = output
    if len({len(output) for output in outputs.values()}) > 1:
        lengths = {name: len(output) for name, output in outputs.items()}
        raise ValueError(
            f"draw_activity: expected outputs of one length, got {lengths}; draw each by itself"
        )
    return outputs


def _names(populations: Any) -> list[str]:
    if isinstance(populations, str):
        return [populations]
    if not isinstance(populations, Iterable):
        raise TypeError(
            f"draw_activity: populations: expected names, got {shown(populations)} of type "
            f"{type(populations).__name__}; pass a list"
        )
    return list(populations)


def _array(where: str, output: Any) -> np.ndarray:
    try:
        return np.asarray(output, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{where}: expected an array (T, size) or (T, B, size), got {type(output).__name__}; "
            "pass the outputs by population, out.metrics['populations']"
        ) from error


def _by_population(recording: Any) -> dict[str, Any]:
    """Whatever the form of the recording, the outputs by name of the population."""
    if not isinstance(recording, Mapping):
        raise TypeError(
            "draw_activity: expected a dict of outputs by population, got "
            f"{type(recording).__name__}; pass out.metrics['populations'] of a graph that "
            "with_recording made"
        )
    found = {
        name: entry[ACTIVATION_KEY]
        if isinstance(entry, Mapping) and ACTIVATION_KEY in entry
        else entry
        for name, entry in recording.items()
    }
    paths = {path: f"/{path}".partition(f"/{_PREFIX}") for path in found}
    graphs = {graph for graph, prefix, _ in paths.values() if prefix}
    if not graphs:
        return found
    if len(graphs) > 1:
        raise ValueError(
            "draw_activity: expected the populations of one graph, got those of graphs at "
            f"{sorted(graph[1:] for graph in graphs)}; pass the entries of one of them"
        )
    return {name: found[path] for path, (_, prefix, name) in paths.items() if prefix}


def _heights(outputs: Iterable[np.ndarray], kind: Kind) -> list[float]:
    """Inches of each band; less where there are many."""
    wanted = [_UNIT * math.sqrt(output.shape[1]) if kind == "raster" else 0.0 for output in outputs]
    heights = [min(_HIGHEST, max(_LOWEST[kind], height)) for height in wanted]
    shrink = min(1.0, _ENOUGH[kind] / sum(heights))
    return [max(_THINNEST, shrink * height) for height in heights]


def _draw_raster(ax: Any, output: Float[np.ndarray, "T size"], top: float, bottom: float) -> str:
    """Draws a line for each unit; returns the largest absolute value."""
    finite = np.abs(output[np.isfinite(output)])
    largest = finite.max(initial=0.0)
    ax.imshow(
        output.T,
        extent=(-0.5, len(output) - 0.5, bottom, top),
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r",
        vmin=-(largest or 1.0),
        vmax=largest or 1.0,
    )
    return f"{largest:.3g}"


def _draw_trace(ax: Any, output: Float[np.ndarray, "T size"], top: float, bottom: float) -> str:
    """Draws single units, or mean and spread; returns the range of what it draws."""
    few = output.shape[1] <= _FEW
    mean, spread = output.mean(axis=1), output.std(axis=1)
    drawn = output if few else np.stack([mean - spread, mean + spread], axis=1)
    finite = drawn[np.isfinite(drawn)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)

    def place(values: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
        share = (values - low) / (high - low) if high > low else 0.5 + 0 * values
        return bottom - share * (bottom - top)

    steps = np.arange(len(output))
    ax.axhspan(top, bottom, color="#f2f2f2", linewidth=0, zorder=0)
    if few:
        for number, unit in enumerate(output.T):
            ax.plot(steps, place(unit), color=f"C{number}", linewidth=0.9)
    else:
        lower, upper = map(place, drawn.T)
        ax.fill_between(steps, lower, upper, color=_SPREAD, linewidth=0)
        ax.plot(steps, place(mean), color=_LINE, linewidth=0.9)
    return f"{low:.3g} to {high:.3g}"


def _label(
    ax: Any, middles: list[float], labels: tuple[list[str], list[str]], font: float, says: str
) -> None:
    """Writes names at the left of the bands and numbers at the right."""
    right = ax.secondary_yaxis("right")
    for axis, texts, size in zip((ax, right), labels, (font, 0.85 * font), strict=True):
        axis.set_yticks(middles, texts, fontsize=size)
        axis.tick_params(axis="y", length=0)
        for text in axis.get_yticklabels():
            text.set_parse_math(False)
        for spine in axis.spines.values():
            spine.set_visible(False)
    ax.tick_params(axis="x", labelsize=FONT)
    ax.set_xlabel("step", fontsize=FONT)
    ax.set_title(says, fontsize=0.85 * FONT, color="#666666", loc="left")
