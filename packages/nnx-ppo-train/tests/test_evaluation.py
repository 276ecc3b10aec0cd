"""Evaluation against a plain loop: episodes to their first end, by a deterministic network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    LoggingLevel,
    NormalTanhSampler,
    PPOAdapter,
    deterministic,
    eval_rollout,
    record_episode,
)
from nnx_ppo_train._evaluation import make_evaluate
from nnx_ppo_train.envs import State
from nnx_stateful import (
    LSTM,
    Dense,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    initial_state,
)
from nnx_stateful.testing import StreamProbe

B, OBS, ACTION = 5, 3, 2
KEY = jax.random.key(4)
BOTH = LoggingLevel.ENV_METRICS | LoggingLevel.NETWORK_METRICS


class Countdown:
    """Ends after as many steps as were drawn at the reset, and pays on beyond that.

    Its `done` is set in that one step only, so that whoever does not remember the first end
    counts on.
    """

    action_size = ACTION

    def __init__(self, longest=6, rewards=("speed", "energy")):
        self.longest, self.rewards = longest, rewards

    def reset(self, rng):
        length_key, obs_key = jax.random.split(rng)
        info = {"left": jax.random.randint(length_key, (), 1, self.longest + 1)}
        return State(
            obs=jax.random.normal(obs_key, (OBS,)),
            reward=dict.fromkeys(self.rewards, jnp.zeros(())),
            done=jnp.zeros(()),
            info=info,
            metrics={"push": jnp.zeros(())},
        )

    def step(self, state, action):
        left = state.info["left"] - 1
        pays = {"speed": action.sum() + state.obs[0], "energy": -jnp.square(action).sum()}
        return state.replace(
            obs=0.8 * state.obs + action[0],
            reward={name: pays[name] for name in self.rewards},
            done=(left == 0).astype(float),
            info={"left": left},
            metrics={"push": jnp.abs(action).sum()},
        )


def make(*first):
    rngs = nnx.Rngs(0)
    head = Sequential([Dense(4, 2 * ACTION, rngs), NormalTanhSampler(rngs)])
    trunk = [make_module(rngs) for make_module in first]
    return Sequential([*trunk, LSTM(OBS, 4, rngs), PPOAdapter(head, Dense(4, 1, rngs))])


NETWORK, ENV = make(), Countdown()


def plain_loop(env, network, steps, key):
    """Episodes one after the other: (returns by key, length, mean metrics) of each."""
    env_key, _ = jax.random.split(key)
    network = deterministic(network)
    step, act = jax.jit(env.step), jax.jit(lambda state, obs: network(state, obs))
    episodes = []
    for row_key in jax.random.split(env_key, B):
        state, carry = env.reset(row_key), initial_state(network, 1)
        returns = dict.fromkeys(env.rewards, 0.0)
        pushes, values = [], []
        for _ in range(steps):
            out = act(carry, state.obs[None])
            state = step(state, out.output.actions[0])
            carry = out.next_state
            for name in env.rewards:
                returns[name] += float(state.reward[name])
            pushes.append(float(state.metrics["push"]))
            values.append(np.asarray(out.metrics["1"]["action"]["1"]["mu"][0]).mean())
            if state.done:
                break
        episodes.append((returns, len(pushes), np.mean(pushes), np.mean(values)))
    return episodes


@pytest.fixture(scope="module")
def episodes():
    return plain_loop(ENV, NETWORK, 100, KEY)


@pytest.fixture(scope="module")
def metrics():
    found = eval_rollout(ENV, NETWORK, B, 100, KEY, (0, 50, 100), BOTH)
    return {name: float(value) for name, value in found.items()}


def expect(metrics, name, values):
    assert metrics[f"{name}/mean"] == pytest.approx(np.mean(values), abs=1e-5)
    assert metrics[f"{name}/std"] == pytest.approx(np.std(values), abs=1e-5)
    for level in (0, 50, 100):
        expected = np.percentile(values, level)
        assert metrics[f"{name}/p{level}"] == pytest.approx(expected, abs=1e-5)


def test_returns_are_summed_up_to_the_first_end(metrics, episodes):
    expect(metrics, "eval/episode_reward", [sum(returns.values()) for returns, *_ in episodes])


def test_returns_are_reported_per_reward(metrics, episodes):
    for name in ENV.rewards:
        expect(metrics, f"eval/episode_reward/{name}", [returns[name] for returns, *_ in episodes])


def test_lifespan_is_the_number_of_steps(metrics, episodes):
    lengths = [length for _, length, *_ in episodes]
    assert len(set(lengths)) > 1
    expect(metrics, "eval/lifespan", lengths)


def test_metrics_are_averaged_over_each_episode(metrics, episodes):
    _, _, pushes, values = zip(*episodes, strict=True)
    assert metrics["eval/env/push"] == pytest.approx(np.mean(pushes), abs=1e-5)
    assert metrics["eval/net/1/action/1/mu"] == pytest.approx(np.mean(values), abs=1e-5)


class Clock(StatefulModule):
    """Reports the step times B weights: an axis as long as the batch that is not the batch axis."""

    def initialize_state(self, batch_size):
        return jnp.zeros(batch_size)

    def reset_state(self, prev_state):
        return jnp.zeros_like(prev_state)

    def __call__(self, state, x, rollout_extras=None):
        step = state[0] + 1.0
        return StatefulModuleOutput(state + 1, x, 0.0, {"time": step * jnp.arange(1.0, B + 1)})


def test_axis_as_long_as_the_batch_is_not_taken_for_it(episodes):
    network = make(lambda rngs: Clock())
    found = eval_rollout(ENV, network, B, 100, KEY, None, LoggingLevel.NETWORK_METRICS)
    lengths = np.array([length for _, length, *_ in episodes])
    weights = np.arange(1.0, B + 1)
    expected = weights.mean() * ((lengths + 1) / 2).mean()
    mistaken = (weights * (lengths + 1) / 2).mean()
    assert abs(expected - mistaken) > 1e-2
    assert float(found["eval/net/0/time"]) == pytest.approx(expected, rel=1e-5)


def test_single_reward_has_no_names_below_it():
    env = Countdown(rewards=("speed",))
    shapes = jax.eval_shape(lambda key: eval_rollout(env, NETWORK, B, 9, key), KEY)
    assert set(shapes) == {
        "eval/deterministic",
        *(f"eval/ends/{reason}" for reason in ("terminated", "truncated", "cut", "nonfinite")),
        "eval/nonfinite",
        "eval/episode_reward/mean",
        "eval/episode_reward/std",
        "eval/lifespan/mean",
        "eval/lifespan/std",
    }


def test_long_episodes_are_cut():
    cut = eval_rollout(ENV, NETWORK, B, 2, KEY, (0, 50, 100))
    episodes = plain_loop(ENV, NETWORK, 2, KEY)
    assert cut["eval/lifespan/p100"] == 2
    expect(cut, "eval/episode_reward", [sum(returns.values()) for returns, *_ in episodes])
    expect(cut, "eval/lifespan", [length for _, length, *_ in episodes])


def plain(tree):
    def leaf_of(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(leaf_of, nnx.to_pure_dict(nnx.state(tree)))


def test_network_stays_as_it_is():
    network = make(StreamProbe)
    before = plain(network)
    eval_rollout(ENV, network, B, 3, KEY, logging_level=LoggingLevel.NETWORK_METRICS)
    record_episode(ENV, network, 3, KEY)
    jax.tree.map(np.testing.assert_array_equal, before, plain(network))
    assert not any(getattr(m, "deterministic", False) for _, m in nnx.iter_modules(network))


def test_deterministic_reaches_every_module_that_has_the_switch():
    class Switched(LSTM):
        """A module of one's own, which knows nothing of `nnx.view`."""

        deterministic = False

    rngs = nnx.Rngs(0)
    network = Sequential([Switched(OBS, 4, rngs), NormalTanhSampler(rngs)])
    copy = deterministic(network)
    assert [module.deterministic for module in copy.children.values()] == [True, True]
    assert [module.deterministic for module in network.children.values()] == [False, False]


def test_evaluation_draws_no_actions_unless_told_to():
    run = jax.jit(
        lambda key, stochastic: eval_rollout(ENV, NETWORK, B, 9, key, stochastic=stochastic),
        static_argnames="stochastic",
    )
    expected = np.mean([sum(r.values()) for r, *_ in plain_loop(ENV, NETWORK, 9, KEY)])
    drawn = run(KEY, stochastic=True)
    assert abs(drawn["eval/episode_reward/mean"] - expected) > 1e-3
    assert drawn["eval/deterministic"] == 0
    assert run(KEY, stochastic=False)["eval/deterministic"] == 1


class Paying(Countdown):
    """Pays one number a step, of a dtype to be chosen."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def reset(self, rng):
        return super().reset(rng).replace(reward=jnp.zeros((), self.dtype))

    def step(self, state, action):
        after = super().step(state.replace(reward=dict.fromkeys(self.rewards)), action)
        return after.replace(reward=jnp.ones((), self.dtype))


@pytest.mark.parametrize("dtype", [bool, jnp.int32])
def test_rewards_that_are_no_floats_are_counted(dtype):
    found = eval_rollout(Paying(dtype), NETWORK, B, 9, KEY)
    assert found["eval/episode_reward/mean"] == found["eval/lifespan/mean"] > 1


def test_compiled_evaluation_equals_the_plain_call(metrics):
    config = EvalConfig(n_envs=B, max_episode_length=100, logging_percentiles=(0, 50, 100))
    graphdef, variables = nnx.split(deterministic(NETWORK))
    found = make_evaluate(ENV, graphdef, config)(variables, KEY)
    assert set(found) <= set(metrics)
    for name, value in found.items():
        assert float(value) == pytest.approx(metrics[name], abs=1e-5)


@jax.custom_batching.custom_vmap
def shared_buffer(x):
    """One number, but one per row in a common buffer under vmap, as MuJoCo Warp has it."""
    return x[None]


@shared_buffer.def_vmap
def _(axis_size, in_batched, x):
    del in_batched
    return jnp.broadcast_to(x, (axis_size, axis_size)), True


class Buffered(Countdown):
    """Pays what a leaf that is not batched has counted up to."""

    def __init__(self):
        super().__init__(rewards=("speed",))

    def reset(self, rng):
        state = super().reset(rng)
        buffer = shared_buffer(0 * state.obs[0])
        return state.replace(info={**state.info, "buffer": buffer}, reward=jnp.zeros(()))

    def step(self, state, action):
        buffer = state.info["buffer"] + 1
        after = super().step(state, action)
        return after.replace(info={**after.info, "buffer": buffer}, reward=buffer[0])


def test_leaf_that_is_not_batched_goes_on_when_some_episodes_have_ended():
    found = eval_rollout(Buffered(), NETWORK, B, 9, KEY, (100,))
    steps = found["eval/lifespan/p100"]
    assert steps > 2
    assert found["eval/episode_reward/p100"] == steps * (steps + 1) / 2
