"""Values that are not finite stay in their row, and end with their episode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import LRU, LeakyIntegrator, has_carry, initial_state, rebuild
from nnx_stateful.layers import _linear_recurrence as linear
from nnx_stateful.testing import check_stateful_module, shipped_modules

ROWS, STEPS, LAST = 3, 5, 2
"""Row 0 is spoiled up to the reset after step LAST."""


def is_float(leaf):
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def spoil(tree, where, value):
    return jax.tree.map(lambda x: x.at[where].set(value) if is_float(x) else x, tree)


def good(leaf):
    """Where a leaf (T, B, ...) is of another row, or later."""
    mask = jnp.ones((STEPS, ROWS), bool).at[: LAST + 1, 0].set(False)
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 2))


def make_gradients(module):
    """A function from (start, xs) to the gradient of what good steps show."""
    graphdef, variables = nnx.split(module)
    done = jnp.zeros((STEPS, ROWS), bool).at[LAST, 0].set(True).at[1, 1].set(True)

    def loss(xs, start):
        out = rebuild(graphdef, variables).unroll(start, xs, done)
        total = 0.0
        for leaf in jax.tree.leaves((out.output, out.regularization_loss)):
            if is_float(leaf) and leaf.ndim >= 2:
                weights = jnp.cos(jnp.arange(leaf.size, dtype=jnp.float32)).reshape(leaf.shape)
                total += jnp.sum(jnp.where(good(leaf), leaf * weights, 0.0))
        return total

    return jax.jit(jax.grad(loss))


def assert_same_gradients(module, sample):
    xs = jax.tree.map(lambda x: jnp.stack([(1 - 0.1 * t) * x for t in range(STEPS)]), sample)
    start = initial_state(module, ROWS)
    gradients = make_gradients(module)
    expected = gradients(xs, start)
    for value in (np.nan, np.inf):
        spoiled = gradients(
            spoil(xs, (slice(LAST + 1), 0), value), spoil(start, (slice(0, 1),), value)
        )
        for old, new in zip(*map(jax.tree.leaves, (expected, spoiled)), strict=True):
            assert np.isfinite(old).all()
            np.testing.assert_allclose(
                jnp.where(good(new), new, 0), jnp.where(good(old), old, 0), rtol=1e-5, atol=1e-6
            )


REMEMBERS = [
    case
    for case in shipped_modules()
    if has_carry(jax.eval_shape(lambda case=case: case.build(nnx.Rngs(0)).initialize_state(1)))
]


@pytest.mark.parametrize("case", REMEMBERS, ids=lambda case: case.name)
def test_gradients_of_later_steps_and_other_rows_stay_as_they_are(case):
    assert_same_gradients(case.build(nnx.Rngs(0)), case.sample(ROWS))


@pytest.fixture
def in_parallel(monkeypatch):
    """The recurrence as accelerators solve it."""
    monkeypatch.setattr(linear, "_solve", linear.solve_in_parallel)


@pytest.mark.usefixtures("in_parallel")
@pytest.mark.parametrize(
    "build",
    [lambda: LRU(3, 4, nnx.Rngs(0)), lambda: LeakyIntegrator(3, nnx.Rngs(0), learnable=True)],
)
def test_recurrence_in_parallel_lets_nothing_through(build):
    case = next(case for case in shipped_modules() if case.name == "LRU")
    check_stateful_module(build(), case.sample(ROWS), laws=[6, 10])
    assert_same_gradients(build(), case.sample(ROWS))
