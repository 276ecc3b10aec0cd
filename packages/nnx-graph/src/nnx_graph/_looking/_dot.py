"""Graphviz text of a graph, in the language DOT."""

from .._declaration._spec import GraphSpec
from ._layout import lay_out
from ._marks import connection_label, heads_by_source
from ._text import population_label, printable, role_of

_SHAPES = {"input": "ellipse", "internal": "box", "output": "hexagon"}
_HEADS = {"arrow": [], "bar": ["arrowhead=tee"], "open": ["arrowhead=empty"]}


def to_dot(spec: GraphSpec) -> str:
    """Returns a directed graph from left to right.

    Nodes have the names of the populations, and labels with the size and, where it is not the sum,
    the aggregation; inputs are ellipses and outputs hexagons. The label of an edge has its delay in
    steps, its connectivity, "frozen", and "=" with the name under which weights are shared; edges
    that lead back, which close cycles, are dashed. Where a population has a sign, edges from
    inhibitory ones end in a bar, and those from populations without a sign in an empty head.

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
    heads = heads_by_source(spec)
    for p in spec.populations:
        label = _label(population_label(p, str))
        lines.append(f"    {ids[p.name]} [label={label}, shape={_SHAPES[role_of(p)]}];")
    for c in spec.connections:
        label = connection_label(c, str)
        options = [f"label={_label(label)}"] * bool(label)
        options += ["style=dashed", "constraint=false"] * (c.name in backward)
        options += _HEADS[heads[c.src]]
        ending = f" [{', '.join(options)}]" if options else ""
        lines.append(f"    {ids[c.src]} -> {ids[c.dst]}{ending};")
    return "\n".join([*lines, "}"]) + "\n"


def _label(text: str) -> str:
    return _quoted(text.replace("&", "&amp;"))  # labels know HTML's entities


def _quoted(text: str) -> str:
    r"""A quoted string; the backslash of a name is doubled, so that the others are ours.

    Example:
      >>> print(_quoted('say "a\\b"'), _quoted("two\nlines"))
      "say \"a\\b\"" "two\nlines"
    """
    text = printable(text.replace("\\", "\\\\"))
    return '"' + text.replace('"', '\\"') + '"'
