"""Graphviz text of a graph, in the language DOT."""

from .._declaration._spec import GraphSpec
from ._layout import lay_out
from ._text import printable, role_of

_SHAPES = {"input": "ellipse", "internal": "box", "output": "hexagon"}


def to_dot(spec: GraphSpec) -> str:
    """Returns a directed graph from left to right.

    Nodes have the names of the populations, and labels with the size; inputs are ellipses and
    outputs hexagons. The label of an edge is its delay in steps; edges that lead back, which close
    cycles, are dashed.

    Args:
      spec: the declaration.

    Example:
      >>> from nnx_graph import Connection, Population
      >>> a, b = Population(name="a", size=1, input_from="x"), Population(name="b", size=2)
      >>> there, back = Connection(src="a", dst="b"), Connection(src="b", dst="b", delay=3)
      >>> print(to_dot(GraphSpec((a, b), (there, back))), end="")
      digraph PopulationGraph {
          rankdir=LR;
          "a" [label="a (1)", shape=ellipse];
          "b" [label="b (2)", shape=box];
          "a" -> "b";
          "b" -> "b" [label="3", style=dashed, constraint=false];
      }
    """
    ids = {name: _quoted(name) for name in spec.names}
    backward = lay_out(spec).backward
    lines = ["digraph PopulationGraph {", "    rankdir=LR;"]
    for p in spec.populations:
        label = _quoted(f"{p.name} ({p.size})".replace("&", "&amp;"))  # labels know HTML's entities
        lines.append(f"    {ids[p.name]} [label={label}, shape={_SHAPES[role_of(p)]}];")
    for c in spec.connections:
        options = [f'label="{c.delay}"'] * (c.delay > 0)
        options += ["style=dashed", "constraint=false"] * (c.name in backward)
        ending = f" [{', '.join(options)}]" if options else ""
        lines.append(f"    {ids[c.src]} -> {ids[c.dst]}{ending};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    r"""A quoted string; the backslash of a name is doubled, so that the others are ours.

    Example:
      >>> print(_quoted('say "a\\b"'), _quoted("two\nlines"))
      "say \"a\\b\"" "two\nlines"
    """
    text = printable(text.replace("\\", "\\\\"))
    return '"' + text.replace('"', '\\"') + '"'
