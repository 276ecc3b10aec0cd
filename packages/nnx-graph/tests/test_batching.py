"""How products are batched: few groups, bounded padding, nothing lost."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from nnx_graph._engine._batching import MAX_BATCHES, MAX_PADDING, MAX_PRODUCTS, SMALL, batched

SHAPES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), max_size=60)


def weights(shapes):
    return len(shapes) * max(r for r, _ in shapes) * max(c for _, c in shapes)


@given(SHAPES)
def test_every_product_is_in_one_group(shapes):
    groups = batched(shapes)
    assert sorted(itertools.chain.from_iterable(groups)) == list(range(len(shapes)))


@given(SHAPES.filter(lambda shapes: len(shapes) > MAX_PRODUCTS))
def test_padding_is_bounded(shapes):
    for group in batched(shapes):
        members = [shapes[place] for place in group]
        own = sum(rows * columns for rows, columns in members)
        assert weights(members) <= max(SMALL, MAX_PADDING * own)


def test_small_populations_of_many_sizes_are_few_batches():
    shapes = [(1 + place % 37, 1 + place % 4) for place in range(200)]
    assert len(batched(shapes)) <= MAX_BATCHES


def test_large_products_of_unlike_shapes_stay_apart():
    shapes = [(64 * 4**place, 64) for place in range(6)] * 2
    assert len(batched(shapes)) > MAX_BATCHES
