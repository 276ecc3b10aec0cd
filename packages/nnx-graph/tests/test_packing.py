"""How small graphs are packed: units, levels, responses, blocks and ring buffers."""

import jax
import jax.numpy as jnp
import pytest
from nnx_graph import Connection, GraphSpec, Population, Unnamed
from nnx_graph._engine._batching import MAX_PRODUCTS
from nnx_graph._engine._packer import pack
from nnx_graph._engine._plan import lower


def packed(sizes, *connections, **populations):
    """Packs a graph of populations by size, and connections (source, destination, delay)."""
    made = [
        Population(name=name, size=size, **populations.get(name, {}))
        for name, size in sizes.items()
    ]
    drawn: list[Connection] = []
    for src, dst, delay in connections:
        parallel = sum((c.src, c.dst) == (src, dst) for c in drawn)
        drawn.append(Connection(src=src, dst=dst, delay=delay, index=parallel))
    return pack(lower(GraphSpec(tuple(made), tuple(drawn))))


def members(packing):
    """The populations of each level, by unit."""
    return [
        [
            {name for name, ((_, index), _, _) in packing.places.items() if index == level.index}
            for level in unit.levels
        ]
        for unit in packing.units
    ]


def blocks_into(packing, name):
    """What each block that enters a population reads in one product, and whom it feeds."""
    return {
        (tuple(connection for connection, _ in reads), destinations)
        for block in packing.blocks
        for reads, destinations in zip(block.reads, block.destinations, strict=True)
        if name in destinations
    }


def test_components_of_one_depth_are_one_unit_cyclic_ones_apart():
    packing = packed(
        dict.fromkeys("abcdefg", 1),
        *(("a", "b", 0), ("a", "c", 2), ("a", "d", 0), ("d", "d", 1)),
        *(("a", "e", 0), ("e", "f", 1), ("f", "e", 1), ("b", "g", 0)),
    )
    assert members(packing) == [[{"a"}], [{"b", "c"}], [{"d", "e", "f"}], [{"g"}]]
    assert [unit.cyclic for unit in packing.units] == [False, False, True, False]


def test_levels_of_a_cycle_follow_its_connections_without_delay():
    packing = packed(
        dict.fromkeys("abcd", 2),
        *(("a", "b", 0), ("a", "c", 0), ("b", "d", 0), ("c", "d", 0), ("d", "a", 1)),
    )
    assert members(packing) == [[{"a"}, {"b", "c"}, {"d"}]]


def test_populations_of_a_level_lie_side_by_side():
    packing = packed({"a": 2, "b": 3, "c": 1}, ("a", "a", 1), ("b", "b", 1), ("c", "c", 2))
    (unit,) = packing.units
    assert unit.width == 6
    stretches = [range(start, start + size) for _, start, size in packing.places.values()]
    assert sorted(column for stretch in stretches for column in stretch) == list(range(6))


def test_alike_populations_respond_together_and_those_with_a_module_alone():
    tanh = {"activation": jnp.tanh}
    packing = packed(
        dict.fromkeys("abcdef", 2) | {"f": 3},
        **dict.fromkeys("acf", tanh),
        e={"compute": Unnamed("LeakyProbe"), "activation": jnp.tanh},
    )
    (unit,) = packing.units
    found = [(r.activation, r.size, r.count, r.population) for r in unit.levels[0].responses]
    assert sorted(found, key=str) == sorted(
        [(jnp.tanh, 2 + 2 + 3, 1, None), (None, 2 + 2, 1, None), (jnp.tanh, 2, 1, "e")],
        key=str,
    )


def test_an_activation_over_units_sees_every_population_alone():
    softmax = {"activation": jax.nn.softmax}
    packing = packed({"a": 2, "b": 2, "c": 3}, **dict.fromkeys("abc", softmax))
    (response, other) = packing.units[0].levels[0].responses
    assert (response.size, response.count, response.elementwise) == (2, 2, False)
    assert (other.size, other.count, other.elementwise) == (3, 1, False)


def test_what_only_a_cycle_reads_comes_after_what_others_read():
    packing = packed(
        {"a": 1, "b": 2, "c": 3, "d": 4},
        *(("a", "b", 1), ("b", "a", 1), ("c", "b", 1), ("b", "c", 2), ("c", "d", 0)),
        b={"output_to": "y"},
    )
    (level,) = packing.units[0].levels
    assert level.shown == 2 + 3
    assert packing.places["a"] == (("hidden", 0), 0, 1)
    assert {packing.places[name][0] for name in "bc"} == {("level", 0)}


def test_sources_of_one_destination_are_read_in_one_product():
    packing = packed({"a": 1, "b": 2, "c": 3}, ("a", "c", 0), ("b", "c", 1), ("a", "c", 2))
    assert blocks_into(packing, "c") == {(("a->c", "b->c", "a->c#1"), ("c",))}
    assert [(block.rows, block.columns) for block in packing.blocks] == [(4, 3)]


def test_destinations_that_read_the_same_share_a_product():
    packing = packed(
        {"a": 1, "b": 2, "c": 3, "d": 3},
        *(("a", "b", 0), ("a", "c", 0), ("a", "d", 1)),
    )
    assert blocks_into(packing, "b") == blocks_into(packing, "c") == {(("a->b",), ("b", "c"))}
    assert blocks_into(packing, "d") == {(("a->d",), ("d",))}


def test_connections_within_a_cycle_have_blocks_of_their_own():
    packing = packed({"a": 1, "b": 1}, ("a", "b", 0), ("a", "b", 1), ("b", "b", 1))
    level = packing.units[1].levels[0]
    reads = {
        kind: [tuple(name for name, _ in packing.blocks[i].reads[0]) for i in indices]
        for kind, indices in (("outer", level.blocks), ("inner", level.inner_blocks))
    }
    assert reads == {"outer": [("a->b", "a->b#1")], "inner": [("b->b",)]}


@pytest.mark.parametrize("extra", [0, 1])
def test_many_products_are_batched_by_shape(extra):
    count = MAX_PRODUCTS + extra
    sources = {f"s{number}": 1 + number % 4 for number in range(count)}
    targets = {f"t{number}": 2 for number in range(count)}
    packing = packed(
        sources | targets, *((f"s{number}", f"t{number}", 0) for number in range(count))
    )
    batches = sorted((len(block.reads), block.rows) for block in packing.blocks)
    if not extra:
        assert [size for size, _ in batches] == [1] * count
    else:  # of 1, 2, and 3 or 4 rows
        assert batches == [(2, 2), (3, 1), (4, 4)]


def test_rings_are_shared_by_populations_of_one_level_and_length():
    packing = packed(
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5},
        *(("a", "d", 3), ("b", "d", 1), ("b", "e", 3), ("c", "d", 2), ("d", "e", 2), ("e", "e", 1)),
    )
    levels = {name: index for name, ((_, index), _, _) in packing.places.items()}
    assert levels["a"] == levels["b"] == levels["c"] == 0  # d and e come after them
    shapes = {name: (ring.length, ring.remembered.width) for name, ring in packing.rings.items()}
    assert shapes == {
        "level0_length3": (3, 1 + 2),  # a, and b by the longer of its delays
        "level0_length2": (2, 3),
        f"level{levels['d']}_length2": (2, 4),
        f"level{levels['e']}_length1": (1, 5),
    }


def test_packings_are_equal_and_hashable_where_declarations_are():
    one, other = (packed({"a": 1, "b": 1}, ("a", "b", 1), ("b", "b", 2)) for _ in "ab")
    assert one == other
    assert hash(one) == hash(other)
    assert one.blocks == other.blocks
    assert hash(one.blocks) == hash(other.blocks)
    assert one != packed({"a": 1, "b": 1}, ("a", "b", 1), ("b", "b", 1))
