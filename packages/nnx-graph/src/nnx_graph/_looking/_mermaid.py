"""Mermaid text of a graph, which GitHub and many editors show as a picture."""

import re

from .._declaration._spec import GraphSpec
from ._layout import lay_out
from ._text import printable, role_of

_SHAPES = {"input": '(["{}"])', "internal": '["{}"]', "output": '{{{{"{}"}}}}'}


def to_mermaid(spec: GraphSpec) -> str:
    """Returns a flowchart from left to right.

    Labels hold name and size, inputs are rounded and outputs hexagons. The number on an arrow is
    its delay in steps; arrows that lead back, which close cycles, are dotted. Names may contain
    anything: nodes are called ``p0``, ``p1``, ... in the order of declaration. Mermaid itself
    draws up to 500 arrows unless it is told otherwise.

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
    for p in spec.populations:
        label = f"{_escaped(p.name)} ({p.size})"
        lines.append(f"    {ids[p.name]}{_SHAPES[role_of(p)].format(label)}")
    for c in spec.connections:
        arrow = "-.->" if c.name in backward else "-->"
        delay = f"|{c.delay}|" if c.delay else ""
        lines.append(f"    {ids[c.src]} {arrow}{delay} {ids[c.dst]}")
    return "\n".join(lines) + "\n"


def _escaped(name: str) -> str:
    """Writes all that could be markup as entity codes; dots and dashes within a word are none."""

    def code(found: re.Match[str]) -> str:
        return found[0] if found[1] else f"#{ord(found[0])};"

    return re.sub(r"(?<=[^\W_])([._-])(?=[^\W_])|[^\w ]|_", code, printable(name))
