"""Every option of every config changes what it says it changes.

A new field has no entry in OPTIONS and fails the first test.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    LoggingLevel,
    NormalTanhSampler,
    PPOAdapter,
    PPOConfig,
    Stop,
    TrainConfig,
    VideoConfig,
    make_env,
    ppo_loss,
    train_ppo,
)
from nnx_ppo_train.presets import NetworkOptions, make_network
from nnx_stateful import GRU, Dense, Sequential

from ._networks import ACTION, OBS, RandomEnds
from .test_loss import BASE, Table, make_rollout

SMALL = {
    "n_envs": 4,
    "rollout_length": 4,
    "total_steps": 32,
    "n_epochs": 2,
    "n_minibatches": 2,
    "learning_rate": 1e-2,
    "logging_level": LoggingLevel.LOSSES | LoggingLevel.ACTOR_EXTRA | LoggingLevel.CRITIC_EXTRA,
}
ROLLOUT = make_rollout(np.random.default_rng(0))
TREE = make_rollout(np.random.default_rng(1), lambda make: {"a": make(), "b": make()})


def tiny(entropy_weight=1e-2):
    """The smallest network that there is to train."""
    rngs = nnx.Rngs(0)
    sampler = NormalTanhSampler(rngs, entropy_weight=entropy_weight)
    action = Sequential([Dense(OBS, 2 * ACTION, rngs), sampler])
    return Sequential([PPOAdapter(action=action, value=Dense(OBS, 1, rngs))])


class Walk(RandomEnds):
    """Little to compile: only the first observation is random; ends come in turns."""

    def __init__(self, period=3):
        super().__init__()
        self.period = period

    def step(self, state, action):
        speed = jnp.tanh(state.obs[::-1]) + action.sum()
        count = state.info["count"] + 1
        done = count % self.period == 0
        return state.replace(
            obs=0.7 * state.obs + speed,
            reward=jnp.tanh(state.obs[0] + action[0]),
            done=done,
            info={"truncated": done & (count % 2 == 0), "count": count},
            metrics={"speed": jnp.abs(speed).sum()},
        )

    def reset(self, rng):
        state = super().reset(rng)
        return state.replace(info={**state.info, "count": jnp.int32(state.obs[0] > 0)})


@dataclasses.dataclass
class Run:
    """What a run left: its result, its log by step, its network."""

    result: object
    logs: dict
    network: object

    @property
    def params(self):
        return jax.tree.leaves(nnx.state(self.network, nnx.Param))


def train(env=None, network=None, config=None, more=None, **ppo):
    """A short run; options of PPOConfig by name, further arguments of train_ppo in ``more``."""
    config = config or TrainConfig(eval=EvalConfig(enabled=False))
    config = dataclasses.replace(config, ppo=PPOConfig(**(SMALL | ppo)))
    network, logs = network or tiny(), {}
    more = {"log_fn": lambda m, s: logs.update({s: m})} | (more or {})
    result = train_ppo(env or Walk(), network, config, **more)
    return Run(result, logs, network)


@functools.cache
def usual_run():
    """The run with which others are compared."""
    return train()


@functools.cache
def wide():
    """A run with more environments and fewer epochs."""
    return train(n_envs=6, n_epochs=1)


@functools.cache
def recomputed():
    """A run that estimates advantages in every minibatch."""
    return train(recompute_advantages=True)


@functools.cache
def still():
    """A run, longer than the usual one, whose parameters practically stay what they are."""
    return train(learning_rate=1e-12, total_steps=33)


@pytest.fixture(scope="module")
def usual():
    return usual_run()


def differ(first, second):
    pairs = zip(first.params, second.params, strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs) > 1e-6


def loss(rollout=ROLLOUT, table=None, **options):
    return ppo_loss(table or Table(), (), rollout, PPOConfig(**BASE, **options))


def changes_the_loss(**options):
    """As documented: test_loss compares the same options with plain arithmetic."""
    assert abs(loss(**options)[0] - loss()[0]) > 1e-4


# ---- the algorithm ---------------------------------------------------------------------------


def n_envs(usual):
    assert wide().result.training_state.episodes.returns.shape == (6,)
    assert usual.result.training_state.episodes.returns.shape == (4,)


def rollout_length(usual):
    run = train(rollout_length=5, total_steps=40)
    assert run.result.total_steps == 40
    assert run.result.training_state.episodes.returns.shape == (4,)


def total_steps(usual):
    assert usual.result.total_iterations == 2
    assert still().result.total_iterations == 3


def gae_lambda(usual):
    changes_the_loss(gae_lambda=0.5)


def discounting_factor(usual):
    changes_the_loss(discounting_factor=0.5)
    one = loss(TREE, discounting_factor={"a": 0.5, "b": 0.99})[1]["losses/critic"]
    other = loss(TREE)[1]["losses/critic"]
    assert abs(one["a"] - other["a"]) > 1e-4
    assert one["b"] == other["b"]


def clip_range(usual):
    changes_the_loss(clip_range=0.05)


def learning_rate(usual):
    run = train(learning_rate=lambda count: 0.1 * 0.5**count)
    rates = [run.logs[step]["learning_rate"] for step in (16, 32)]
    np.testing.assert_allclose(rates, [0.1 * (1 - 0.5**4) / 2, 0.1 / 16 * (1 - 0.5**4) / 2], 1e-5)
    assert usual.logs[32]["learning_rate"] == pytest.approx(1e-2)


def normalize_advantages(usual):
    spread = float(loss()[1]["losses/advantages"].std())
    assert spread == pytest.approx(1.0, abs=1e-4)
    assert abs(float(loss(normalize_advantages=False)[1]["losses/advantages"].std()) - 1) > 1e-2


def combine_advantages(usual):
    apart = loss(TREE)[1]["losses/advantages"]
    joined = loss(TREE, combine_advantages=True)[1]["losses/advantages"]
    assert np.abs(apart["a"] - apart["b"]).max() > 1e-2
    np.testing.assert_array_equal(joined["a"], joined["b"])


def n_epochs(usual):
    assert usual.logs[32]["updates"] == 4
    assert wide().logs[24]["updates"] == 2


def n_minibatches(usual):
    assert train(n_minibatches=4).logs[32]["updates"] == 8


def critic_loss_weight(usual):
    none, double = loss(critic_loss_weight=0.0), loss(critic_loss_weight=2.0)
    np.testing.assert_allclose(double[0] - none[0], 2 * none[1]["losses/critic"], rtol=1e-5)


def gradient_clipping(usual):
    assert differ(train(gradient_clipping=1e-9), usual)


def weight_decay(usual):
    run = train(weight_decay=0.5)
    assert differ(run, usual)
    assert sum(float((p**2).sum()) for p in run.params) < (
        sum(float((p**2).sum()) for p in usual.params)
    )


def logging_level(usual):
    few = train(logging_level=LoggingLevel.NONE).logs[32]
    always = {"train/", "replay/", "learning_rate", "updates", "nonfinite/"}
    assert all(any(key.startswith(word) for word in always) for key in few)
    assert len(usual.logs[32]) > len(few)


def logging_percentiles(usual):
    assert any(key.endswith("/p5") for key in train(logging_percentiles=(5,)).logs[32])
    assert not any(key.endswith("/p5") for key in usual.logs[32])


def learning_rate_schedule(usual):
    run = train(learning_rate_schedule="linear")
    rates = [run.logs[step]["learning_rate"] for step in (16, 32)]
    np.testing.assert_allclose(rates, [1e-2 * 6.5 / 8, 1e-2 * 2.5 / 8], rtol=1e-5)


def desired_kl(usual):
    # the first update of an iteration leaves the rate alone, the others adapt it
    faster = train(desired_kl=1e3).logs[16]["learning_rate"]
    slower = train(desired_kl=1e-12).logs[16]["learning_rate"]
    grown = [1.0, 1.5, 1.5**2, 1.5**3]
    assert faster == pytest.approx(1e-2 * np.mean(grown), rel=1e-4)
    assert slower == pytest.approx(1e-2 * np.mean(1 / np.array(grown)), rel=1e-4)


def target_kl(usual):
    run = train(target_kl=1e-12)
    assert [run.logs[step]["updates"] for step in (16, 32)] == [1, 1]
    assert run.logs[32]["replay/kl"] > 0
    same = train(target_kl=1e6)
    assert same.logs[32]["updates"] == 4
    assert not differ(same, usual)


def entropy_scale(usual):
    plain = usual.logs[16]["losses/regularization"]
    run = train(entropy_scale=optax.constant_schedule(0.0))
    assert abs(plain) > 1e-4
    assert run.logs[16]["losses/regularization"] == 0.0
    triple = train(entropy_scale=3.0, learning_rate=1e-12)
    assert triple.logs[16]["losses/regularization"] == pytest.approx(
        3 * still().logs[16]["losses/regularization"], rel=1e-5
    )


def entropy_schedule(usual):
    options = {"learning_rate": 1e-12, "n_minibatches": 1, "n_epochs": 4}
    run = train(entropy_schedule="linear", **options)
    still = train(**options)
    ratio = [
        run.logs[step]["losses/regularization"] / still.logs[step]["losses/regularization"]
        for step in (16, 32)
    ]
    np.testing.assert_allclose(ratio, [6.5 / 8, 2.5 / 8], rtol=1e-4)


def value_clip_range(usual):
    changes_the_loss(value_clip_range=0.1)


def huber_delta(usual):
    changes_the_loss(huber_delta=0.2)


def recompute_advantages(usual):
    changes_the_loss(recompute_advantages=True)
    assert differ(recomputed(), usual)


def normalize_over(usual):
    run = usual.logs[32]
    other = train(normalize_over="minibatch").logs[32]
    # over the whole rollout the mean is 0, over a minibatch of it it is not
    assert other["losses/advantages/std"] == pytest.approx(1.0, abs=1e-3)
    assert abs(run["losses/advantages/std"] - 1.0) > 1e-3


def reward_scaling(usual):
    run = train(normalize_values=False, reward_scaling=100.0)
    unscaled = train(normalize_values=False)
    assert run.logs[16]["losses/critic"] > 100 * unscaled.logs[16]["losses/critic"]
    assert run.logs[16]["train/episode_reward"] == usual.logs[16]["train/episode_reward"]


def normalize_values(usual):
    run = train(normalize_values=False)
    assert (run.result.training_state.values, usual.result.training_state.values.weight) == (
        None,
        pytest.approx(1.9),
    )
    assert differ(run, usual)


def normalize_rewards(usual):
    run = train(normalize_values=False, normalize_rewards=True)
    assert run.result.training_state.reward_normalizer.sums.sample_count == 32
    assert differ(run, usual)


def bptt_length(usual):
    def recurrent():
        return Sequential([GRU(OBS, OBS, nnx.Rngs(0)), *tiny()])

    assert differ(train(network=recurrent(), bptt_length=1), train(network=recurrent()))


def burn_in(usual):
    changes_the_loss(burn_in=2)


def truncation(usual):
    changes_the_loss(truncation="mask")


def env_resets(usual):
    assert differ(train(env_resets="fresh"), usual)


def nonfinite(usual):
    assert "nonfinite/samples" in usual.logs[32]
    assert not any("nonfinite/" in name for name in train(nonfinite="ignore").logs[32])


def weight_decay_mask(usual):
    assert differ(
        train(weight_decay=0.1, weight_decay_mask="all"),
        train(weight_decay=0.1, weight_decay_mask=lambda name: name.endswith("kernel")),
    )


# ---- evaluation ------------------------------------------------------------------------------


EVALUATION = {"n_envs": 3, "max_episode_length": 5, "every_steps": 16}


@functools.cache
def evaluated(**options):
    """Returns the evaluation with which a run begins, which a callback ends at once."""
    config = TrainConfig(eval=EvalConfig(**(EVALUATION | options)))
    more = {"callbacks": [lambda metrics, steps: Stop()]}
    (entry,) = train(config=config, more=more).result.eval_history
    return entry


@functools.cache
def evaluations(**options):
    """Returns the evaluations of a run whose parameters practically stay what they are."""
    config = TrainConfig(eval=EvalConfig(**(EVALUATION | options)))
    return train(config=config, learning_rate=1e-12).result.eval_history


def enabled(usual):
    assert usual.result.eval_history == []
    assert len(evaluations(seeds="fixed")) == 3


def groups(usual):
    """``test_survival.py`` evaluates by groups."""
    with pytest.raises(ValueError, match="expected a key of info of Walk, got 'kind'"):
        evaluated(group_by="kind", group_names=("a",))


def every_steps(usual):
    assert [entry["step"] for entry in evaluations(seeds="fixed")] == [0, 16, 32]
    assert [entry["step"] for entry in evaluations(every_steps=32)] == [0, 32]


def eval_n_envs(usual):
    few, many = evaluated(n_envs=1), evaluated(n_envs=8)
    assert few["eval/lifespan/std"] == 0 < many["eval/lifespan/std"]


def max_episode_length(usual):
    assert evaluated(max_episode_length=1)["eval/lifespan/mean"] == 1
    assert evaluated()["eval/lifespan/mean"] > 1


def seeds(usual):
    def returns(seeds):
        return [entry["eval/episode_reward/mean"] for entry in evaluations(seeds=seeds)]

    assert np.ptp(returns("fixed")) < 1e-5
    assert len(set(returns("fresh"))) == 3


def eval_deterministic(usual):
    drawn, mode = evaluated(deterministic=False), evaluated()
    assert [entry["eval/deterministic"] for entry in (drawn, mode)] == [0.0, 1.0]
    assert drawn["eval/episode_reward/mean"] != mode["eval/episode_reward/mean"]


def eval_logging_level(usual):
    assert "eval/env/speed" in evaluated(logging_level=LoggingLevel.ENV_METRICS)
    assert "eval/env/speed" not in evaluated()


def eval_logging_percentiles(usual):
    assert "eval/lifespan/p10" in evaluated(logging_percentiles=(10,))
    assert "eval/lifespan/p10" not in evaluated()


# ---- videos ----------------------------------------------------------------------------------


class Rendered(Walk):
    """Frames as large as it is told."""

    def render(self, trajectory, size=2):
        return [np.zeros((size, size, 3), np.uint8) for _ in trajectory]


@functools.cache
def videos(size=3, **options):
    """Returns the videos of a run."""
    found = []
    video = {"enabled": True, "every_steps": 16, "episode_length": 2} | options
    config = TrainConfig(
        eval=EvalConfig(enabled=False),
        video=VideoConfig(**video, render_kwargs={"size": size}),
    )
    train(Rendered(period=100), config=config, more={"video_fn": found.append})
    return found


def longer_videos():
    """Videos that are longer, larger and fewer."""
    return videos(size=5, every_steps=32, episode_length=3)


def video_enabled(usual):
    assert videos(enabled=False) == []
    assert len(videos()) == 3


def video_every_steps(usual):
    assert [video.step for video in videos()] == [0, 16, 32]
    assert [video.step for video in longer_videos()] == [0, 32]


def episode_length(usual):
    assert [video.episode_length for video in videos()] == [2, 2, 2]
    assert [video.episode_length for video in longer_videos()] == [3, 3]


def render_kwargs(usual):
    assert videos()[0].frames.shape[1:] == (3, 3, 3)
    assert longer_videos()[0].frames.shape[1:] == (5, 5, 3)


# ---- the run ---------------------------------------------------------------------------------


@functools.cache
def other_seed():
    """A run from another seed, and the steps at which it was saved."""
    saved = []
    config = TrainConfig(seed=5, eval=EvalConfig(enabled=False), checkpoint_every_steps=16)
    run = train(config=config, more={"checkpoint_fn": lambda state, step: saved.append(step)})
    return run, saved


def seed(usual):
    assert differ(other_seed()[0], usual)


def checkpoint_every_steps(usual):
    assert other_seed()[1] == [0, 16, 32]


def checkpoint_every_minutes(usual):
    saved = []
    config = TrainConfig(eval=EvalConfig(enabled=False), checkpoint_every_minutes=1e-9)
    train(config=config, more={"checkpoint_fn": lambda state, step: saved.append(step)})
    assert saved == [0, 16, 32]


def target_return(usual):
    eval_config = EvalConfig(n_envs=3, max_episode_length=5, every_steps=16)
    config = TrainConfig(eval=eval_config, target_return=-1e6)
    assert train(config=config).result.total_steps == 0


def part(usual):
    """``ppo``, ``eval`` and ``video`` are walked themselves."""


OPTIONS = {
    PPOConfig: [
        n_envs, rollout_length, total_steps, gae_lambda, discounting_factor, clip_range,
        learning_rate, normalize_advantages, combine_advantages, n_epochs, n_minibatches,
        critic_loss_weight, gradient_clipping, weight_decay, logging_level, logging_percentiles,
        learning_rate_schedule, desired_kl, target_kl, entropy_scale, entropy_schedule,
        value_clip_range, huber_delta, recompute_advantages, normalize_over, reward_scaling,
        normalize_values, normalize_rewards, bptt_length, burn_in, truncation, env_resets,
        nonfinite, weight_decay_mask,
    ],
    EvalConfig: [
        enabled, every_steps, eval_n_envs, max_episode_length, seeds, eval_deterministic,
        eval_logging_level, eval_logging_percentiles,
    ],
    VideoConfig: [video_enabled, video_every_steps, episode_length, render_kwargs],
    TrainConfig: [seed, checkpoint_every_steps, checkpoint_every_minutes, target_return],
}  # fmt: skip
SLOW = {
    bptt_length, desired_kl, entropy_scale, entropy_schedule, env_resets, eval_n_envs,
    gradient_clipping, logging_level, logging_percentiles, nonfinite, normalize_over,
    normalize_rewards, recompute_advantages, target_kl, weight_decay, weight_decay_mask,
}  # fmt: skip
"""Those that compile a training of their own."""
PARTS = {"ppo", "eval", "video", "group_by", "group_names"}


def test_groups_need_an_environment_that_knows_them(usual):
    groups(usual)


def field_of(check):
    return check.__name__.removeprefix("eval_").removeprefix("video_")


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_option_has_a_check(kind):
    checked = [field_of(check) for check in OPTIONS[kind]]
    assert sorted(checked) == sorted({field.name for field in dataclasses.fields(kind)} - PARTS)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            check,
            id=f"{kind.__name__}.{field_of(check)}",
            marks=pytest.mark.slow if check in SLOW else [],
        )
        for kind, checks in OPTIONS.items()
        for check in checks
    ],
)
def test_option_changes_what_it_says(check, usual):
    check(usual)


# ---- options that a network or environment would leave without effect --------------------------


@pytest.mark.parametrize("option", [{"entropy_scale": 0.5}, {"entropy_schedule": "linear"}])
def test_entropy_options_need_a_sampler_with_a_weight(option):
    (name,) = option
    with pytest.raises(ValueError, match=rf"PPOConfig\.{name}: expected its default, for no sam"):
        train(network=tiny(entropy_weight=0.0), **option)


def test_adaptation_survives_the_update_that_stops_an_iteration():
    options = {"desired_kl": 1e-6, "target_kl": 1.5e-6, "learning_rate": 3e-2, "total_steps": 96}
    run = train(**options)
    assert float(run.result.training_state.schedules.adaptation) < 1.0


@pytest.mark.parametrize(
    "schedule",
    [
        lambda count: None,
        lambda count: jnp.ones(2),
        lambda count: "0.1",
        lambda count: jnp.nan,
        lambda count: -1.0 * count,
    ],
)
@pytest.mark.parametrize("name", ["learning_rate", "entropy_scale"])
def test_schedule_that_gives_no_number_is_refused(name, schedule):
    with pytest.raises(ValueError, match=rf"PPOConfig\.{name}: expected a schedule that gives a"):
        train(**{name: schedule})


def test_network_in_evaluation_mode_is_refused():
    network = tiny()
    network.eval()
    with pytest.raises(ValueError, match=r"evaluation mode, .* call networks\.train\(\)"):
        train(network=network)


def test_config_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="config: expected a TrainConfig, such as"):
        train_ppo(Walk(), tiny(), PPOConfig(**SMALL))


def test_optimizer_that_wants_more_than_gradients_is_refused():
    with pytest.raises(ValueError, match="optimizer: expected an optax transformation that makes"):
        train_ppo(Walk(), tiny(), TrainConfig(), optimizer=optax.lbfgs())


@pytest.mark.parametrize("discounts", [{"a": 0.9}, {"speed": 0.9, "hight": 0.9}])
def test_discounts_must_be_those_of_the_rewards(discounts):
    with pytest.raises(ValueError, match=r"discounting_factor: expected a number, or a dict with"):
        train(discounting_factor=discounts)


def test_discounts_by_reward_key_train():
    env = make_env("body-chain", n_bodies=2)
    network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
    run = train(env, network, discounting_factor={"body_0": 0.9, "body_1": 0.5})
    assert jnp.isfinite(run.logs[32]["losses/total"])
