"""The state of a run is its own: nothing that is donated belongs to anybody else."""

import jax
import jax.numpy as jnp
import numpy as np
from nnx_ppo_train._loop_state import copy_arrays


def address(leaf):
    if isinstance(leaf, np.ndarray):
        return leaf.ctypes.data
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return (jax.random.key_data(leaf) if is_key else leaf).unsafe_buffer_pointer()


def test_copies_share_no_buffer_with_anything():
    twice = jnp.arange(4096.0)
    tree = {"first": twice, "again": twice, "key": jax.random.key(0)}
    aligned = np.frombuffer(bytearray(4096 * 4 + 64), np.float32)  # as JAX would share it
    tree["numpy"] = aligned[-aligned.ctypes.data % 64 // 4 :][:4096]
    copies = copy_arrays(tree)
    addresses = [address(leaf) for leaf in (*tree.values(), *copies.values())]
    assert len(set(addresses)) == len(addresses) - 1  # the array that appears twice
    kept = jax.tree.map(np.asarray, {name: tree[name] for name in ("first", "again", "numpy")})
    donated = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf + 1, tree), donate_argnums=0)
    changed = donated({name: copies[name] for name in kept})
    jax.tree.map(np.testing.assert_array_equal, changed, jax.tree.map(lambda a: a + 1, kept))
    for name, before in kept.items():
        np.testing.assert_array_equal(tree[name], before)
