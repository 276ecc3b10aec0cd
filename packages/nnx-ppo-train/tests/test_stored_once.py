"""StoredOnce: what a tree shares with its source is stored once and comes back."""

import jax
import jax.numpy as jnp
import numpy as np
from nnx_ppo_train._stored_once import StoredOnce


def test_shared_leaves_are_taken_out_and_put_back_after_a_scan():
    def step(carry, x):
        seen = {"eye": x, "ear": carry}
        extras = {"remembers": x, "drew": carry + x, "again": x}
        return carry + 1.0, (seen, StoredOnce.of(extras, seen))

    xs = jnp.arange(6.0).reshape(3, 2)
    _, (seen, stored) = jax.jit(lambda xs: jax.lax.scan(step, jnp.zeros(2), xs))(xs)
    assert len(stored.kept) == 1
    extras = stored.joined(seen)
    np.testing.assert_array_equal(extras["remembers"], xs)
    np.testing.assert_array_equal(extras["again"], xs)
    np.testing.assert_array_equal(extras["drew"], xs + np.arange(3.0)[:, None])


def test_equal_arrays_that_are_not_the_same_stay():
    seen, equal = jnp.ones(2), jnp.ones(2)
    assert len(StoredOnce.of([equal], source=[seen]).kept) == 1
