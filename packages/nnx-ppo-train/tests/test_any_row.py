"""A condition that many trainings share stays a condition, and each keeps its own result."""

import jax
import jax.numpy as jnp
import numpy as np
from nnx_ppo_train._any_row import any_row, where_met


def pick(mask, x):
    return jax.lax.cond(any_row(mask), lambda x: jnp.where(mask, -x, x), lambda x: x, x)


def test_alone_it_is_any():
    assert bool(any_row(jnp.array([False, True])))
    assert not bool(any_row(jnp.array([[False], [False]])))


def test_in_a_batch_it_is_any_of_all():
    masks = jnp.array([[False, False], [False, True]])
    assert jax.vmap(any_row)(masks).tolist() == [True, True]
    assert jax.vmap(jax.vmap(any_row))(masks[:, :, None]).tolist() == [[True, True], [True, True]]


def test_cond_on_it_is_no_select_under_vmap():
    batched = jax.make_jaxpr(jax.vmap(pick))(jnp.zeros((3, 2), bool), jnp.ones((3, 2)))
    assert " cond[" in str(batched)
    plain = jax.vmap(lambda m, x: jax.lax.cond(m.any(), lambda x: -x, lambda x: x, x))
    assert " cond[" not in str(jax.make_jaxpr(plain)(jnp.zeros((3, 2), bool), jnp.ones((3, 2))))


def test_each_element_of_a_batch_keeps_its_own_rows():
    masks = jnp.array([[False, False], [False, True], [True, True]])
    found = jax.jit(jax.vmap(pick))(masks, jnp.ones((3, 2)))
    np.testing.assert_array_equal(found, [[1, 1], [1, -1], [-1, -1]])


def test_what_a_shared_cond_computed_goes_to_those_who_asked_for_it():
    def refilled(condition, pool):
        return jax.lax.cond(
            any_row(condition),
            lambda pool: where_met(condition, {"a": pool["a"] + 1, "b": 7}, pool),
            lambda pool: pool,
            pool,
        )

    conditions = jnp.array([True, False, True])
    pools = {"a": jnp.arange(3.0), "b": jnp.zeros(3, jnp.int32)}
    found = jax.jit(jax.vmap(refilled))(conditions, pools)
    assert found["a"].tolist() == [1.0, 1.0, 3.0]
    assert found["b"].tolist() == [7, 0, 7]
    alone = refilled(jnp.bool_(True), {"a": jnp.zeros(()), "b": jnp.int32(0)})
    assert (float(alone["a"]), int(alone["b"])) == (1.0, 7)
