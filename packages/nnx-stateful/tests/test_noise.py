"""Noise as a function of the carry."""

import jax
import jax.numpy as jnp
import numpy as np
from nnx_stateful import NoiseState, draw_noise, draw_normal, noise_state, rekey_noise


def keys_of(noise):
    return np.asarray(jax.random.key_data(noise.key))


def test_sequence_equals_stepping_bit_for_bit():
    noise = noise_state(jax.random.key(0), 3).advance(2)
    sequence = draw_normal(noise, (4,), steps=5)
    for step in range(5):
        np.testing.assert_array_equal(sequence[step], draw_normal(noise, (4,)))
        noise = noise.advance()
    assert noise.count.tolist() == [7, 7, 7]


def test_rows_and_steps_have_noise_of_their_own():
    few = draw_normal(noise_state(jax.random.key(0), 5), (2,), steps=4)
    assert len(np.unique(few)) == few.size


def test_noise_is_standard_normal():
    values = draw_normal(noise_state(jax.random.key(0), 50), (4,), steps=20)
    assert abs(float(values.mean())) < 0.06
    assert abs(float(values.std()) - 1) < 0.05


def test_noise_is_deterministic_in_the_key():
    first, second, other = (noise_state(jax.random.key(k), 3) for k in (0, 0, 1))
    np.testing.assert_array_equal(keys_of(first), keys_of(second))
    assert not np.array_equal(keys_of(first), keys_of(other))


def test_row_noise_does_not_depend_on_the_batch_size():
    small, large = (noise_state(jax.random.key(0), size) for size in (2, 5))
    np.testing.assert_array_equal(keys_of(small), keys_of(large)[:2])


def test_draw_noise_takes_any_distribution_and_tree():
    noise = noise_state(jax.random.key(0), 3)
    drawn = draw_noise(
        noise, lambda key: {"bit": jax.random.bernoulli(key), "u": jax.random.uniform(key, (2,))}
    )
    assert drawn["bit"].shape == (3,)
    assert drawn["u"].shape == (3, 2)


def test_rekey_changes_noise_states_only_and_each_differently():
    noise = noise_state(jax.random.key(0), 3).advance(4)
    state = {"a": noise, "b": (noise, jnp.ones(3))}
    fresh = rekey_noise(state, jax.random.key(5))
    assert isinstance(fresh["a"], NoiseState)
    assert fresh["a"].count.tolist() == [0, 0, 0]
    assert fresh["b"][1].tolist() == [1, 1, 1]
    sets = [keys_of(entry) for entry in (noise, fresh["a"], fresh["b"][0])]
    assert len({keys.tobytes() for keys in sets}) == 3


def test_rekey_gives_each_of_several_copies_in_a_row_its_own_key():
    flat = noise_state(jax.random.key(0), 6)
    state = jax.tree.map(lambda leaf: leaf.reshape(3, 2), flat)
    fresh = rekey_noise({"a": state, "b": state}, jax.random.key(5))
    keys = np.concatenate([keys_of(entry).reshape(6, -1) for entry in fresh.values()])
    assert fresh["a"].key.shape == fresh["a"].count.shape == (3, 2)
    assert len(np.unique(keys, axis=0)) == 12


def test_rekey_runs_under_jit_and_vmap():
    state = noise_state(jax.random.key(0), 3)
    keys = jax.random.split(jax.random.key(1), 2)
    fresh = jax.jit(jax.vmap(rekey_noise, in_axes=(None, 0)))(state, keys)
    assert fresh.key.shape == (2, 3)
