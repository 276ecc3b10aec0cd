"""Delay and the ring buffer, against plain lists."""

import functools
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict
from hypothesis import given
from hypothesis import strategies as st
from nnx_stateful import (
    Delay,
    initial_state,
    ring_advance,
    ring_read,
    ring_read_sequence,
    ring_write,
    ring_write_sequence,
)
from nnx_stateful.testing import assert_close, check_stateful_module, done_masks, step_through

STEPS, ROWS = 6, 2
INITIAL = -1.0


def history_loop(xs, done, delay):
    """What ``delay`` steps ago was, kept in one plain list per row and episode."""
    outputs = np.full(xs.shape, INITIAL, np.float32)
    for row in range(xs.shape[1]):
        episode = []
        for step in range(xs.shape[0]):
            if len(episode) >= delay:
                outputs[step, row] = episode[len(episode) - delay]
            episode.append(xs[step, row])
            if done[step, row]:
                episode = []
    return outputs


def numbered(steps=STEPS):
    return np.arange(1.0, 1.0 + steps * ROWS, dtype=np.float32).reshape((steps, ROWS))


@functools.cache
def compiled(k_steps):
    delay = Delay(jnp.zeros(()), k_steps, INITIAL)
    return delay, jax.jit(delay.unroll)


@given(done=done_masks(2 * STEPS, ROWS), k_steps=st.sampled_from([1, 2, 3, 8]))
def test_two_unrolls_in_a_row_equal_plain_lists_across_resets(done, k_steps):
    delay, unroll = compiled(k_steps)
    xs = numbered(2 * STEPS)
    first = unroll(initial_state(delay, ROWS), xs[:STEPS], done[:STEPS])
    second = unroll(first.next_state, xs[STEPS:], done[STEPS:])
    got = np.concatenate([first.output, second.output])
    np.testing.assert_array_equal(got, history_loop(xs, done, k_steps))


@given(done=done_masks(STEPS, ROWS), k_steps=st.sampled_from([1, 2, 3, 8]))
def test_state_after_unroll_equals_stepping_leaf_by_leaf(done, k_steps):
    delay, unroll = compiled(k_steps)
    used = unroll(initial_state(delay, ROWS), numbered(), np.zeros((STEPS, ROWS), bool)).next_state
    with jax.disable_jit():
        stepped = step_through(delay, used, numbered(), done)
    assert_close("", stepped.next_state, unroll(used, numbered(), done).next_state)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_sequence_shorter_or_longer_than_the_delay_equals_stepping(steps):
    delay = Delay(jnp.zeros(()), 3, INITIAL)
    state = delay.unroll(initial_state(delay, ROWS), numbered(2)).next_state
    unrolled = delay.unroll(state, numbered(steps))
    assert_close("", step_through(delay, state, numbered(steps)), unrolled)


def test_reset_clears_what_was_before_it():
    delay = Delay(jnp.zeros(()), 2, INITIAL)
    done = np.zeros((STEPS, ROWS), bool)
    done[2, 0] = True
    out = delay.unroll(initial_state(delay, ROWS), jnp.asarray(numbered()), jnp.asarray(done))
    assert out.output[:, 0].tolist() == [-1, -1, 1, -1, -1, 7]
    assert out.next_state["index"].tolist() == [1, 0]


def test_delay_passes_trees_of_any_dtype_through():
    sample = {"image": jnp.zeros((2, 2), jnp.uint8), "flag": jnp.zeros((), bool)}
    delay = Delay(sample, 1)
    x = {"image": jnp.full((3, 2, 2), 7, jnp.uint8), "flag": jnp.ones(3, bool)}
    out = delay(initial_state(delay, 3), x)
    again = delay(out.next_state, x)
    assert {key: leaf.dtype for key, leaf in again.output.items()} == {
        "image": "uint8",
        "flag": bool,
    }
    assert (again.output["image"] == 7).all()
    assert not out.output["flag"].any()


@pytest.mark.parametrize("kind", [FrozenDict, OrderedDict, dict])
def test_delay_takes_any_mapping(kind):
    delay = Delay(OrderedDict(b=jnp.zeros(1), a=jnp.zeros(2)), 1)
    x = kind({"b": jnp.ones((3, 1)), "a": jnp.ones((3, 2))})
    assert delay(initial_state(delay, 3), x).output["a"].shape == (3, 2)


def test_delay_in_float64_keeps_the_laws():
    check_stateful_module(Delay(jnp.zeros(2), 2), jnp.ones((4, 2)), float64=True, laws=[1, 6])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"a": jnp.ones((3, 2))}, r"Delay: input has no entry input\['b'\]; it has"),
        ({"a": jnp.ones((3, 2)), "b": jnp.ones((3, 4))}, r"\(B, 1\) at input\['b'\], got \(3, 4\)"),
        (
            {"a": jnp.ones((3, 2)), "b": jnp.ones((3, 1)), "c": jnp.ones(3)},
            r"an entry input\['c'\] that Delay was not built for",
        ),
        (
            {"a": jnp.ones((3, 2)), "b": jnp.ones((3, 1), int)},
            r"expected dtype float32 at input\['b'\], got int32",
        ),
    ],
)
def test_input_unlike_the_sample_raises_naming_the_path(x, message):
    delay = Delay({"a": jnp.zeros(2), "b": jnp.zeros(1)}, 1)
    with pytest.raises(ValueError, match=message):
        delay(initial_state(delay, 3), x)


@pytest.mark.parametrize("k_steps", [0, -1])
def test_delay_below_one_raises(k_steps):
    with pytest.raises(ValueError, match=f"Delay: k_steps: expected at least 1, got {k_steps}"):
        Delay(jnp.zeros(1), k_steps)


@pytest.mark.parametrize("k_steps", [1.0, "1", True])
def test_delay_that_is_no_int_raises(k_steps):
    with pytest.raises(TypeError, match="Delay: k_steps: expected a positive int, got"):
        Delay(jnp.zeros(1), k_steps)


def test_delay_without_arrays_raises():
    with pytest.raises(ValueError, match="sample_input: expected at least one array"):
        Delay({}, 1)


def test_initial_value_that_the_dtype_cannot_hold_raises():
    with pytest.raises(ValueError, match="expected a whole number for an input of dtype int32"):
        Delay(jnp.zeros(1, int), 1, initial_value=0.5)


# ---- ring buffers with several delays ----------------------------------------------------------


@given(
    done=done_masks(STEPS, ROWS),
    length=st.sampled_from([3, 4]),
    index=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_ring_sequence_equals_ring_steps_for_every_delay(done, length, index):
    buffer = jnp.asarray(-numbered(length).T)
    start = jnp.asarray(index, jnp.int32)
    xs = jnp.asarray(numbered())
    reads = {delay: [] for delay in range(1, length + 1)}
    state = (buffer, start)
    for step in range(STEPS):
        for delay, read in reads.items():
            read.append(ring_read(*state, delay))
        state = ring_write(*state, xs[step])
        ended = done[step]
        state = (jnp.where(ended[:, None], INITIAL, state[0]), jnp.where(ended, 0, state[1]))
    for delay, read in reads.items():
        got = ring_read_sequence(buffer, start, xs, jnp.asarray(done), delay, INITIAL)
        np.testing.assert_array_equal(got, np.stack(read))
    got = ring_write_sequence(buffer, start, xs, jnp.asarray(done), INITIAL)
    assert_close("", state, got)
    assert_close("", state[1], ring_advance(start, length, STEPS, jnp.asarray(done)))


@pytest.mark.parametrize(("value", "kind"), [(float("nan"), ValueError), ("0", TypeError)])
def test_initial_value_that_is_no_finite_number_raises(value, kind):
    with pytest.raises(kind, match="Delay: initial_value: expected a finite number, got"):
        Delay(jnp.zeros(1), 1, initial_value=value)
