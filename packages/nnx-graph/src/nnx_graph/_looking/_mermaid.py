"""Mermaid text of a graph, which GitHub and many editors show as a picture."""

import re

from .._declaration._spec import GraphSpec
from ._layout import lay_out
from ._marks import connection_label, heads_by_source
from ._text import population_label, printable, role_of

_SHAPES = {"input": '(["{}"])', "internal": '["{}"]', "output": '{{{{"{}"}}}}'}
_FORWARD = {"arrow": "-->", "bar": "--o", "open": "-->"}  # Mermaid has no bars and no open heads
_BACKWARD = {"arrow": "-.->", "bar": "-.-o", "open": "-.->"}


def to_mermaid(spec: GraphSpec) -> str:
    """Returns a flowchart from left to right.

    Labels hold name, size and, where it is not the sum, the aggregation; inputs are rounded and
    outputs hexagons. An arrow bears its delay in steps, its connectivity, "frozen", and "=" with
    the name under which weights are shared; arrows that lead back, which close cycles, are dotted,
    and those from inhibitory populations end in a circle. Names may contain anything: nodes are
    called ``p0``, ``p1``, ... in the order of declaration. Mermaid itself draws up to 500 arrows
    unless it is told otherwise.

    Args:
      spec: the declaration.

    Example:
      >>> from nnx_graph import Connection, Population
      >>> a, b = Population(name="a", size=1, input_from="x"), Population(name="b", size=2)
      >>> there, back = Connection(src="a", dst="b"), Connection(src="b", dst="b", delay=3)
      >>> print(to_mermaid(GraphSpec((a, b), (there, back))), end="")
      flowchart LR
          p0(["a (1)"])
          p1["b (2)"]
          p0 --> p1
          p1 -.->|3| p1
    """
    ids = {name: f"p{number}" for number, name in enumerate(spec.names)}
    backward = lay_out(spec).backward
    lines = ["flowchart LR"]
    heads = heads_by_source(spec)
    for p in spec.populations:
        label = population_label(p, _escaped)
        lines.append(f"    {ids[p.name]}{_SHAPES[role_of(p)].format(label)}")
    for c in spec.connections:
        arrow = (_BACKWARD if c.name in backward else _FORWARD)[heads[c.src]]
        label = connection_label(c, _escaped)
        quoted = label if label.isdigit() else f'"{label}"'
        lines.append(f"    {ids[c.src]} {arrow}{f'|{quoted}|' if label else ''} {ids[c.dst]}")
    return "\n".join(lines) + "\n"


def _escaped(name: str) -> str:
    """Writes all that could be markup as entity codes; dots and dashes within a word are none."""

    def code(found: re.Match[str]) -> str:
        return found[0] if found[1] else f"#{ord(found[0])};"

    return re.sub(r"(?<=[^\W_])([._-])(?=[^\W_])|[^\w ]|_", code, printable(name))
