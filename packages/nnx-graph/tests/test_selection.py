"""Columns of several arrays side by side, cut out one by one or gathered, and added back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nnx_graph._engine._selection import MAX_SLICES, Selection, add_columns

LEAD, WIDTH = (2, 3), 40
FEW = [("a", 4, 3), (None, 0, 2), ("b", 0, 5), ("a", 4, 3), ("a", 0, 1)]
MANY = [*FEW, *(("b", start, 2) for start in range(30, 10, -4)), (None, 0, 1)]
LOTS = pytest.mark.parametrize("count", [2, MAX_SLICES, MAX_SLICES + 3])


def arrays(*keys):
    rng = np.random.default_rng(0)
    return {key: jnp.asarray(rng.normal(size=(*LEAD, WIDTH)), jnp.float32) for key in keys}


def by_hand(pieces, whole):
    parts = [
        np.zeros((*LEAD, width))
        if key is None
        else np.asarray(whole[key])[..., start:][..., :width]
        for key, start, width in pieces
    ]
    return np.concatenate(parts, axis=-1)


@pytest.mark.parametrize("pieces", [FEW, MANY], ids=["sliced", "gathered"])
def test_selection_takes_its_pieces_in_order(pieces):
    whole, select = arrays("a", "b", "unread"), Selection.of(pieces)
    np.testing.assert_array_equal(select(whole), by_hand(pieces, whole))
    assert select.width == sum(width for _, _, width in pieces)
    assert select.keys == ("a", "b")


@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(("a", "b", None)), st.integers(0, 5), st.integers(1, 3)),
        min_size=1,
        max_size=2 * MAX_SLICES,
    ).filter(lambda pieces: any(key for key, _, _ in pieces))
)
def test_joining_pieces_changes_nothing_that_is_taken(pieces):
    whole, select = arrays("a", "b"), Selection.of(pieces)
    assert len(select.pieces) <= len(pieces)
    np.testing.assert_array_equal(select(whole), by_hand(pieces, whole))


def test_adjoining_pieces_of_one_array_are_one():
    adjoining = [("a", 1, 2), ("a", 3, 1), (None, 0, 1), (None, 0, 4), ("b", 4, 1), ("a", 5, 1)]
    assert Selection.of(adjoining).pieces == (
        ("a", 1, 3),
        (None, 0, 5),
        ("b", 4, 1),
        ("a", 5, 1),
    )


def test_selection_of_all_columns_is_the_array_itself():
    whole = arrays("a")
    assert Selection.of([("a", 0, 10), ("a", 10, WIDTH - 10)])(whole) is whole["a"]


@LOTS
def test_add_columns_transposes_selecting(count):
    rng = np.random.default_rng(1)
    starts = rng.permutation(WIDTH // 2)[:count] * 2  # one column each, none adjoining
    selections = [
        Selection.of([("a", int(start), 1) for start in starts]),
        Selection.of([("a", 3, 9)]),  # overlaps the first
    ]
    assert len(selections[0].pieces) == count
    total = arrays("a")["a"]
    columns = [jnp.asarray(rng.normal(size=(*LEAD, s.width)), jnp.float32) for s in selections]

    def take(a):
        return [selection({"a": a}) for selection in selections]

    (spread,) = jax.linear_transpose(take, total)(columns)
    got = add_columns(total, list(zip(selections, columns, strict=True)))
    np.testing.assert_allclose(got, total + spread, rtol=1e-5, atol=1e-6)


@LOTS
def test_add_columns_of_a_wider_type_is_of_that_type(count):
    select = Selection.of([("a", 2 * place, 1) for place in range(count)])
    total, columns = jnp.ones((1, WIDTH), jnp.bfloat16), jnp.full((1, count), 1e-4, jnp.float32)
    got = add_columns(total, [(select, columns)])
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got[0, : 2 * count : 2], 1 + 1e-4, rtol=1e-6)


def test_add_columns_of_nothing_returns_the_total():
    total = arrays("a")["a"]
    np.testing.assert_array_equal(add_columns(total, []), total)
