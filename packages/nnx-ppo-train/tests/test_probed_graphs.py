"""Networks whose graph is lesioned, clamped or stimulated: evaluated, rolled out and saved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import PopulationGraph, with_graph
from nnx_ppo_train import (
    EvalConfig,
    LoggingLevel,
    NormalTanhSampler,
    PPOAdapter,
    PPOConfig,
    TrainConfig,
    deterministic,
    eval_rollout,
    load_checkpoint,
    make_env,
    save_checkpoint,
    train_ppo,
    unroll_env,
)
from nnx_ppo_train.envs import State
from nnx_stateful import Filter, Map, Normalizer, Sequential, extract_activations, initial_state

B, LENGTH = 4, 6
KEY = jax.random.key(0)
DOSES = np.array([[0.0], [0.3], [0.6], [1.0]], np.float32)


class PaysTheAction:
    """Every episode has LENGTH steps, and each pays the action."""

    action_size = 1

    def reset(self, rng):
        del rng
        return State(jnp.ones(4), jnp.zeros(()), jnp.zeros(()), {"step": jnp.int32(0)}, {})

    def step(self, state, action):
        step = state.info["step"] + 1
        done = (step == LENGTH).astype(float)
        return state.replace(reward=action[0], done=done, info={"step": step})


def make_network():
    """An agent that puts its input into a graph with a slow and a fast way to the muscle."""
    rngs = nnx.Rngs(0)
    graph = PopulationGraph(rngs)
    graph.add_input("eye", 4, input_from="vision", activation="tanh")
    graph.add_population("core", 3, activation="tanh")
    graph.add_output("muscle", 2)
    graph.add_output("value", 1)
    graph.connect("eye", "core", delay=1)
    graph.connect("core", "core", delay=1)
    graph.connect("core", "muscle")
    graph.connect("eye", "muscle")
    graph.connect("core", "value")
    graph.finalize()
    sampler = NormalTanhSampler(rngs, entropy_weight=1e-2)
    adapter = PPOAdapter(action=Map(muscle=sampler), value=Filter({"value": "value"}))
    return Sequential([Filter({"vision": ()}), Normalizer({"vision": 4}), graph, adapter])


@pytest.fixture(scope="module")
def network():
    return make_network()


def returns(network, **options):
    found = jax.jit(lambda: eval_rollout(PaysTheAction(), network, B, 2 * LENGTH, KEY, **options))()
    return {name: float(value) for name, value in found.items()}


def clamped(network, value, **keywords):
    """The network whose muscle is told what to do: the mean, and the scale, which is not used."""
    return with_graph(network, lambda graph: graph.clamp("muscle", value, **keywords))


def test_rows_of_one_evaluation_have_their_own_dose(network):
    probed = clamped(network, DOSES)
    options = {"logging_percentiles": (0, 100), "logging_level": LoggingLevel.NETWORK_METRICS}
    found = returns(with_graph(probed, lambda graph: graph.record("core")), **options)
    expected = LENGTH * np.tanh(DOSES)
    assert found["eval/episode_reward/mean"] == pytest.approx(expected.mean(), abs=1e-5)
    assert found["eval/episode_reward/std"] == pytest.approx(expected.std(), abs=1e-5)
    assert found["eval/episode_reward/p100"] == pytest.approx(expected.max(), abs=1e-5)
    assert any(name.startswith("eval/net/2/populations/core") for name in found)


def test_schedule_acts_in_some_steps_of_each_episode(network):
    scheduled = clamped(clamped(network, 0.0), DOSES, steps=range(2, 4))
    found = returns(scheduled)["eval/episode_reward/mean"]
    assert found == pytest.approx(2 * np.tanh(DOSES).mean(), abs=1e-5)


def test_evaluations_of_all_doses_are_one_vmap(network):
    def mean_return(strength):
        probed = with_graph(network, lambda graph: graph.lesion("eye->muscle", strength))
        found = eval_rollout(PaysTheAction(), probed, B, LENGTH, KEY)
        return found["eval/episode_reward/mean"]

    curve = jax.jit(jax.vmap(mean_return))(jnp.array([0.0, 1.0]))
    assert curve[0] == pytest.approx(returns(network)["eval/episode_reward/mean"], abs=1e-5)
    cut = with_graph(network, lambda graph: graph.lesion("eye->muscle"))
    assert curve[1] == pytest.approx(returns(cut)["eval/episode_reward/mean"], abs=1e-5)
    assert abs(curve[1] - curve[0]) > 1e-3


def test_rollout_gives_the_curve_row_by_row_over_several_episodes(network):
    env, steps = PaysTheAction(), 2 * LENGTH
    scheduled = clamped(clamped(deterministic(network), 0.0), DOSES, steps=range(LENGTH - 1, 99))
    scheduled = with_graph(scheduled, lambda graph: graph.record(["muscle"]))

    @jax.jit
    def run():
        states = jax.vmap(env.reset)(jax.random.split(KEY, B))
        state = initial_state(scheduled, B)
        return unroll_env(env, states, scheduled, state, steps, KEY)[2]

    rollout = run()
    expected = np.zeros((steps, B))
    expected[[LENGTH - 1, steps - 1]] = np.tanh(DOSES[:, 0])
    np.testing.assert_allclose(rollout.rewards, expected, atol=1e-6)
    muscle = extract_activations(rollout.metrics["net"])["2/populations/muscle"]
    np.testing.assert_allclose(np.tanh(muscle[..., 0]), expected, atol=1e-6)


def test_lesioned_network_trains_and_comes_back_from_a_checkpoint(tmp_path):
    def lesion(network, strength):
        return with_graph(network, lambda g: g.lesion("core", strength, steps=range(1, 3)))

    env = make_env("cartpole")
    config = TrainConfig(
        ppo=PPOConfig(n_envs=4, rollout_length=3, total_steps=12), eval=EvalConfig(enabled=False)
    )
    intact, strength = make_network(), [0.0, 0.5, 1.0]
    before = plain(nnx.state(intact, nnx.Param))
    result = train_ppo(env, lesion(intact, strength), config)
    save_checkpoint(tmp_path / "saved", result.training_state)
    fresh = lesion(make_network(), [0.1, 0.1, 0.1])
    loaded = load_checkpoint(tmp_path / "saved", fresh, env, config).networks
    trained = result.training_state.networks
    jax.tree.map(np.testing.assert_array_equal, plain(nnx.state(loaded)), plain(nnx.state(trained)))
    graph = loaded.child_modules[2]
    assert graph.interventions[0].value[...].tolist() == strength  # no update reached it
    after = plain(nnx.state(intact, nnx.Param))  # trained through the lesioned network
    assert any((a != b).any() for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True))


def plain(state):
    """All leaves as NumPy arrays, keys as their data."""

    def to_numpy(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.array(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(to_numpy, nnx.to_pure_dict(state))
