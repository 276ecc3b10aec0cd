"""Random declarations that can be written down, and what is like in two graphs."""

import dataclasses

import jax
import numpy as np
from hypothesis import strategies as st
from nnx_graph import Connection, GraphSpec, Named, Population, register_module
from nnx_graph.testing import LeakyProbe, graph_descriptions


def make_probe(in_features, out_features, *, rngs, steps=1, weights=()):
    """A probe, whose options are there to be written."""
    del rngs, steps, weights
    return LeakyProbe(in_features, out_features)


register_module("leaky probe", make_probe)

PROBES = (Named("leaky probe"), Named("leaky probe", steps=2, weights=((1, 0.5), None, "a", True)))
FIELDS = {field.name for kind in (Population, Connection) for field in dataclasses.fields(kind)}
TAKEN = FIELDS | {"declared", "format", "version", "id", "node_default", "edge_default"}

names = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Cn")),  # what XML can hold
    min_size=1,
    max_size=4,
).filter(lambda name: "->" not in name and "#" not in name)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(("json:", "json:[1]", "null", " ", "\r\n", "1"))
)
values = st.recursive(scalars, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=6)
attributes = st.dictionaries(names.filter(lambda name: name not in TAKEN), values, max_size=3).map(
    lambda found: tuple(found.items())
)


@st.composite
def written_specs(draw):
    """Random graphs with names and attributes of any characters, all modules registered."""
    description = draw(graph_descriptions())
    count = len(description.populations)
    drawn = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    renamed = {p.name: name for p, name in zip(description.populations, drawn, strict=True)}
    populations = tuple(
        dataclasses.replace(
            p,
            name=renamed[p.name],
            compute=draw(st.sampled_from(PROBES)) if p.compute else None,
            attributes=draw(attributes),
        )
        for p in description.populations
    )
    connections = tuple(
        dataclasses.replace(
            c,
            src=renamed[c.src],
            dst=renamed[c.dst],
            transform=draw(st.sampled_from(PROBES)) if c.transform else None,
            attributes=draw(attributes),
        )
        for c in description.connections
    )
    return GraphSpec(populations, connections, draw(attributes))


def assert_same(got, expected):
    """Equal declarations, also in what Python counts as equal: 1, 1.0 and True."""
    assert got == expected
    assert repr(got) == repr(expected)


def assert_equal_leaves(got, expected):
    """Two trees of one structure whose leaves are equal bit for bit."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
