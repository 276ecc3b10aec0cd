"""Carry state: made and reset in one place, with errors that say where."""

import jax
import jax.numpy as jnp
import pytest
from nnx_stateful import (
    NoiseState,
    StatefulModule,
    StatefulModuleOutput,
    check_same_state,
    initial_state,
    noise_state,
    reset_rows,
    select_rows,
)


def module_with(initialize=None, reset=None):
    """Makes a module of the two functions."""

    class Given(StatefulModule):
        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state, x, 0.0, {})

    if initialize:
        Given.initialize_state = lambda self, batch_size: initialize(batch_size)
    if reset:
        Given.reset_state = lambda self, prev_state: reset(prev_state)
    return Given()


def test_initial_state_strips_weak_types():
    state = initial_state(module_with(lambda size: jnp.full((size,), 0.0)), 3)
    assert not state.weak_type


def test_initial_state_without_batch_axis_raises_naming_the_leaf():
    module = module_with(lambda size: {"h": jnp.zeros((size, 2)), "key": jnp.zeros(2)})
    with pytest.raises(ValueError, match=r"lead with the batch axis \(3, ...\), got shape \(2,\)"):
        initial_state(module, 3)
    with pytest.raises(ValueError, match=r"state\['key'\]"):
        initial_state(module, 3)


def test_reset_rows_resets_the_done_rows_only():
    module = module_with(reset=lambda row: jax.tree.map(jnp.zeros_like, row))
    state = {"h": jnp.ones((3, 2)), "n": jnp.arange(3)}
    after = reset_rows(module, state, jnp.array([1.0, 0.0, 1.0]))
    assert after["h"].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert after["n"].tolist() == [0, 1, 0]


def test_reset_rows_without_carry_does_not_call_reset():
    def refuse(row):
        raise AssertionError("called")

    assert reset_rows(module_with(reset=refuse), (), jnp.ones(3, bool)) == ()


def test_reset_rows_passes_typed_keys_through():
    state = noise_state(jax.random.key(0), 3)
    after = reset_rows(module_with(reset=lambda row: row), state, jnp.array([True, False, True]))
    assert isinstance(after, NoiseState)
    assert jnp.array_equal(jax.random.key_data(after.key), jax.random.key_data(state.key))


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        (lambda row: jnp.zeros((row.shape[0], 4)), r"expected shape \(4,\) .* got \(4, 4\)"),
        (lambda row: row[:2], r"expected shape \(4,\) .* got \(2,\)"),
        (lambda row: row.astype(int), r"dtype float32 at state, got \(4,\) and int32"),
        (lambda row: (row, row), "expected a state of structure"),
        (lambda row: None, "expected a state of structure"),
        (lambda row: row[0].shape[0] * row, r"got IndexError \(.*for a row of shapes \(4,\)"),
        (lambda row: jnp.zeros(row.missing), r"got AttributeError"),
    ],
)
def test_reset_that_changes_the_state_raises_saying_it_sees_one_row(reset, message):
    module = module_with(reset=reset)
    with pytest.raises(ValueError, match=message):
        reset_rows(module, jnp.ones((3, 4)), jnp.ones(3, bool))
    with pytest.raises(ValueError, match=r"Given.reset_state: .* reset_state sees one row"):
        reset_rows(module, jnp.ones((3, 4)), jnp.ones(3, bool))


def test_select_rows_keeps_trailing_axes():
    picked = select_rows(jnp.array([True, False]), jnp.ones((2, 3, 1)), jnp.zeros((2, 3, 1)))
    assert picked.shape == (2, 3, 1)
    assert picked[:, 0, 0].tolist() == [1, 0]


def test_check_same_state_accepts_equal_types():
    check_same_state(jnp.zeros(2), jnp.ones(2), "here", "nothing to do")


def test_reset_that_fails_in_its_own_way_keeps_its_error():
    def refuse(row):
        raise NotImplementedError("mine")

    with pytest.raises(NotImplementedError, match="mine"):
        reset_rows(module_with(reset=refuse), jnp.ones(3), jnp.ones(3, bool))


def test_states_of_other_structure_raise_naming_the_leaves():
    expected, got = {"a": jnp.zeros(1), "b": jnp.zeros(1)}, {"b": jnp.zeros(1), "c": jnp.zeros(1)}
    message = r"here: expected .* misses state\['a'\] and has extra state\['c'\]; do this"
    with pytest.raises(ValueError, match=message):
        check_same_state(expected, got, "here", "do this")
    with pytest.raises(
        ValueError, match=r"of structure PyTreeDef\(\(\*,\)\), got PyTreeDef\(\[\*\]\)"
    ):
        check_same_state((1.0,), [1.0], "here", "do this")
