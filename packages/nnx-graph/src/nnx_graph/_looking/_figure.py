"""Axes on new figures, and the width of text, for pictures; matplotlib is imported when needed."""

import importlib
from typing import Any

import numpy as np

FONT, SMALLEST_FONT = 8.0, 3.5  # points


def check_matplotlib(owner: str) -> None:
    """Raises ImportError, with what to install, if there is no matplotlib."""
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise ImportError(
            f"{owner}: expected matplotlib to be installed, got {error}; "
            "run pip install nnx-graph[drawing]"
        ) from error


def check_axes(owner: str, ax: Any) -> None:
    """Raises TypeError unless it is axes of matplotlib, or None."""
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    if ax is None or isinstance(ax, Axes):
        return
    hint = "pass what pyplot.subplots() returns as its second value, or leave it out"
    if isinstance(ax, FigureBase):
        hint = "pass figure.add_subplot()"
    elif isinstance(ax, np.ndarray):
        hint = "pass one of them"
    raise TypeError(
        f"{owner}: expected ax to be axes of matplotlib, or None, got {type(ax).__name__}; {hint}"
    )


def new_axes(
    width: float, height: float, margins: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
) -> Any:
    """Returns axes on a new figure of pyplot.

    Args:
      width: of the axes, in inches.
      height: of the axes, in inches.
      margins: around them at the left, bottom, right and top, in inches.
    """
    from matplotlib import pyplot

    left, bottom, right, top = margins
    size = left + width + right, bottom + height + top
    place = left / size[0], bottom / size[1], width / size[0], height / size[1]
    return pyplot.figure(figsize=size).add_axes(place)


def text_width(text: str) -> float:
    """Inches that a text takes in the usual font."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=FONT)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] / 72


def inches(ax: Any) -> tuple[float, float]:
    """Width and height of axes as they are now."""
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    return extent.width / dpi, extent.height / dpi
