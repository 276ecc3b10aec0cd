"""verify_replay on networks with every kind of memory and noise, and on the presets."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_ppo_train import verify_replay
from nnx_ppo_train.envs import make_env
from nnx_ppo_train.presets import list_networks, make_network

from ._networks import TRUNKS, RandomEnds, make

SIZES = {"n_envs": 4, "rollout_length": 8}
QUICK = {
    "float32": ("lru", "variational"),
    "float64": ("graph",),
}
"""What the fast tests check: memory in layers, noise, memory in delays. The others are slow."""

EVERY = [
    pytest.param(name, dtype, marks=[] if name in QUICK[dtype] else pytest.mark.slow)
    for dtype in QUICK
    for name in sorted(TRUNKS)
]


def assert_replays(env, network, dtype):
    report = verify_replay(env, network, **SIZES, float64=dtype == "float64")
    assert report.float64 == (dtype == "float64")
    assert report.terminations > 0
    assert report.truncations > 0
    largest = max(
        deviation.max()
        for stage in report.stages.values()
        for deviation in stage.deviations.values()
    )
    assert largest < {"float32": 1e-4, "float64": 1e-10}[dtype]


class Float32Walk(RandomEnds):
    """Begins with float32 states, and adds float64 to them where actions are float64."""

    def reset(self, rng):
        state = super().reset(rng)
        return state.replace(obs=state.obs.astype(jnp.float32), reward=jnp.zeros((), jnp.float32))


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_trunk_replays(name, dtype):
    network = make(name)
    assert_replays(Float32Walk(), network, dtype)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(nnx.state(network, nnx.Param)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", list(QUICK))
@pytest.mark.parametrize("env_name", ["cartpole", "recall"])
@pytest.mark.parametrize("name", sorted(list_networks()))
def test_preset_replays(name, env_name, dtype):
    env = make_env(env_name)
    assert_replays(env, make_network(name, env, nnx.Rngs(0)), dtype)
