"""No two purposes and no two seeds share a key."""

import jax
from flax import nnx
from nnx_ppo_train._keys import Purpose, key_for


def test_purposes_and_seeds_have_keys_of_their_own():
    seeds = (0, 1, 2**31, 2**32 - 1)
    keys = {tuple(jax.random.key_data(key_for(s, p)).tolist()) for s in seeds for p in Purpose}
    assert len(keys) == len(seeds) * len(Purpose)


def test_no_purpose_shares_a_key_with_the_streams_of_nnx():
    """From which networks of the same seed draw their parameters."""
    for seed in (0, 3):
        rngs = nnx.Rngs(seed)
        drawn = {tuple(jax.random.key_data(rngs.params()).tolist()) for _ in range(100)}
        keys = {tuple(jax.random.key_data(key_for(seed, p)).tolist()) for p in Purpose}
        assert len(drawn) == 100
        assert not drawn & keys


def test_keys_are_the_same_every_time():
    assert key_for(3, Purpose.NOISE) == key_for(3, Purpose.NOISE)
