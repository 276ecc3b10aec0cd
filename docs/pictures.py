"""Draws the pictures of graph-networks.md: ``uv run python docs/pictures.py``."""

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
from flax import nnx
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from nnx_graph import PopulationGraph, draw_activity
from nnx_ppo_train import make_env
from nnx_stateful import with_recording
from PIL import Image

FOLDER = Path(__file__).parent / "pictures"


def tutorial_graph() -> PopulationGraph:
    """Two senses, a recurrent core, and heads for action and value."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("skin", 3, input_from="touch", activation=jnp.tanh)
    graph.add_input("eye", 6, input_from="vision", activation=jnp.tanh)
    graph.add_population("core", 16, activation=nnx.swish)
    graph.connect("skin", "core")
    graph.connect("eye", "core", delay=3)
    graph.connect("core", "core", delay=1)
    graph.add_output("muscles", 4)
    graph.connect("core", "muscles")
    graph.add_output("value", 1)
    graph.connect("core", "value")
    return graph


def chain_graph(bodies: int = 20) -> PopulationGraph:
    """Bodies in touch with their neighbours and with a root, each with an action and a value."""
    env: Any = make_env("body-chain", n_bodies=bodies)
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_population("root", 32, activation=jnp.tanh)
    for number, (body, size) in enumerate(env.observation_size.items()):
        graph.add_input(body, size, input_from=body, activation=jnp.tanh)
        graph.connect(body, "root", delay=1 + number // 7, reciprocal=True)  # far is late
        if number:
            graph.connect(env.body_names[number - 1], body, delay=1, reciprocal=True)
        graph.add_output(f"action_{number}", 2 * env.action_size[body])
        graph.connect(body, f"action_{number}")
        graph.add_output(f"value_{number}", 1)
        graph.connect(body, f"value_{number}")
    return graph


SENSES = {"retina": ("LGN", "V1"), "cochlea": ("MGN", "A1"), "skin": ("VPL", "S1")}
"""Input, its nucleus of the thalamus, and the area of the cortex behind it."""

PATHWAYS = (
    "V1 V2, V2 V4, V4 IT, V2 MT, MT PPC, IT PFC, PPC PFC, PPC PMC, A1 STG, STG PFC, S1 PPC, S1 M1, "
    "PFC PMC, PMC M1"
)
"""Areas that follow each other; each pair is connected in both directions."""


def brain_graph() -> PopulationGraph:
    """12 areas of cortex with 4 populations each, thalamus, basal ganglia: 60 populations."""
    graph = PopulationGraph(nnx.Rngs(0))

    def add(name: str, size: int) -> None:
        graph.add_population(name, size, activation=_gentle)

    for sense, (nucleus, _) in SENSES.items():
        graph.add_input(sense, 32, input_from=sense)
        add(nucleus, 32)
        graph.connect(sense, nucleus, delay=1)
    pairs = [pair.split() for pair in PATHWAYS.split(", ")]
    for area in dict.fromkeys(area for pair in pairs for area in pair):
        _add_area(graph, area, add)
    for nucleus, area in SENSES.values():
        graph.connect(nucleus, f"{area}.4", delay=1)
        graph.connect(f"{area}.5", nucleus, delay=2)
    for lower, upper in pairs:
        graph.connect(f"{lower}.23", f"{upper}.4", delay=2)
        graph.connect(f"{upper}.5", f"{lower}.23", delay=4)
        graph.connect(f"{upper}.5", f"{lower}.i", delay=4)
    for name, size in (("striatum", 64), ("pallidum", 16), ("thalamus", 32)):
        add(name, size)
    for area in ("PFC", "PMC", "M1", "PPC"):
        graph.connect(f"{area}.5", "striatum", delay=2)
    graph.connect("striatum", "pallidum", delay=1)
    graph.connect("pallidum", "thalamus", delay=1)
    for area in ("PFC", "PMC", "M1"):
        graph.connect("thalamus", f"{area}.4", delay=2)
    for name, size, source in (("arm", 8, "M1.5"), ("gaze", 4, "PPC.5"), ("value", 1, "striatum")):
        graph.add_output(name, size)
        graph.connect(source, name, delay=1)
    return graph


def _gentle(x: jax.Array) -> jax.Array:
    """Keeps activity from feeding itself."""
    return jnp.tanh(x / 2)


def _add_area(graph: PopulationGraph, area: str, add: Callable[[str, int], None]) -> None:
    """Layers 4, 2/3 and 5, each in touch with the interneurons."""
    for layer, size in (("4", 32), ("23", 48), ("5", 32), ("i", 16)):
        add(f"{area}.{layer}", size)
    graph.connect(f"{area}.4", f"{area}.23")
    graph.connect(f"{area}.23", f"{area}.5")
    for layer in ("4", "23", "5"):
        graph.connect(f"{area}.{layer}", f"{area}.i", delay=1, reciprocal=True)
    graph.connect(f"{area}.23", f"{area}.23", delay=1)
    graph.connect(f"{area}.5", f"{area}.4", delay=1)


def draw_flashes(graph: PopulationGraph, populations: list[str] | None = None) -> Figure:
    """The activity of a graph whose inputs are lit for 10 of 40 steps, one after the other."""
    graph.finalize()
    watched = with_recording(graph)
    lit, xs = jnp.arange(120) % 40 < 10, {}
    for number, population in enumerate(graph.spec.inputs):
        pattern = jax.random.normal(jax.random.key(number), (1, 1, population.size))
        xs[population.input_from] = jnp.roll(lit, 5 * number)[:, None, None] * pattern
    out = watched.unroll(watched.initialize_state(1), xs)
    return draw_activity(out.metrics["populations"], populations=populations).figure


def save(figure: Any, path: Path, dots: int) -> None:
    """Writes a PNG of few colours, so that it stays small."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dots)
    image = Image.open(buffer).convert("RGB")
    (axes,) = figure.axes
    few = image.quantize(64) if axes.images else _with_colours_of(axes, image)
    few.save(path, optimize=True)


def _with_colours_of(axes: Any, image: Image.Image) -> Image.Image:
    """Keeps the colours that are drawn, and three steps from each of them to white."""
    drawn = [text.get_color() for text in axes.texts]
    for patch in axes.patches:
        drawn += [patch.get_facecolor(), patch.get_edgecolor()]
    shades = {(255, 255, 255)}
    for colour in map(to_rgb, drawn):
        for share in (0.25, 0.5, 0.75, 1.0):
            red, green, blue = (round(255 * (1 - share + share * part)) for part in colour)
            shades.add((red, green, blue))
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for shade in sorted(shades) for part in shade])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


SEEN = ["retina", "LGN", "V1.4", "V1.23", "V1.5", "V2.4", "V2.23", "V4.23", "IT.23", "PFC.23"]
SEEN += ["PMC.5", "M1.5", "striatum", "arm", "value"]

PICTURES: dict[str, tuple[int, Callable[[], Any]]] = {
    "tutorial": (150, lambda: tutorial_graph().draw().figure),
    "chain": (100, lambda: chain_graph().draw().figure),
    "brain": (96, lambda: brain_graph().draw().figure),
    "activity": (96, lambda: draw_flashes(brain_graph(), SEEN)),
}
"""Dots per inch, and what draws it, by name."""


def main(arguments: list[str] | None = None) -> None:
    """Draws all pictures, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PICTURES)}; by default all")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    matplotlib.use("agg")
    options.folder.mkdir(exist_ok=True)
    for name in options.names or PICTURES:
        dots, draw = PICTURES[name]
        save(draw(), options.folder / f"{name}.png", dots)


if __name__ == "__main__":
    main()
