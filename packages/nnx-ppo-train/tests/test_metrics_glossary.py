"""docs/metrics.md names every metric that training emits, and none that it does not."""

import re
from pathlib import Path

import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from nnx_ppo_train import (
    EpisodeWrapper,
    EvalConfig,
    LoggingLevel,
    PPOConfig,
    TrainConfig,
    make_env,
    train_ppo,
)
from nnx_ppo_train.presets import NetworkOptions, make_network

GLOSSARY = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `([^`]+)` \| (number|distribution) \|", re.MULTILINE)
SUFFIX = {"number": "", "distribution": r"/(mean|std|p\d+)"}
LEVEL = LoggingLevel.ALL | LoggingLevel.ROLLOUT_OBS


def documented() -> dict[str, re.Pattern[str]]:
    """Pattern of the full keys, by the key as it stands in the glossary."""
    rows = ROW.findall(GLOSSARY.read_text(encoding="utf-8"))
    return {
        key: re.compile(re.escape(key).replace(re.escape("..."), ".+") + SUFFIX[kind])
        for key, kind in rows
    }


class OneKind(EpisodeWrapper):
    """An environment whose episodes all belong to the first group."""

    def reset(self, rng):
        state = super().reset(rng)
        return state.replace(info={**state.info, "kind": jnp.int32(0)})

    def step(self, state, action):
        after = super().step(state, action)
        return after.replace(info={**after.info, "kind": state.info["kind"]})


def emitted_keys(env_name: str, optimizer=None, **options) -> set[str]:
    """Keys that a run of two iterations logs with everything turned on."""
    env = OneKind(make_env(env_name, episode_length=2, **options), 2)
    config = TrainConfig(
        ppo=PPOConfig(
            n_envs=2,
            rollout_length=2,
            total_steps=8,
            n_epochs=1,
            n_minibatches=1,
            logging_level=LEVEL,
            logging_percentiles=(0, 50),
        ),
        eval=EvalConfig(
            n_envs=2,
            max_episode_length=2,
            logging_level=LEVEL,
            group_by="kind",
            group_names=("only",),
        ),
    )
    network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
    keys: set[str] = set()
    train_ppo(
        env,
        network,
        config,
        log_fn=lambda metrics, step: keys.update(metrics),
        optimizer=optimizer,
    )
    return keys


@pytest.fixture(scope="module")
def keys() -> set[str]:
    """What an environment with bare arrays and one with dicts of everything bring about."""
    return emitted_keys("point-mass", optax.sgd(1e-3)) | emitted_keys("body-chain", n_bodies=2)


def test_every_metric_is_documented(keys):
    patterns = documented().values()
    missing = {key for key in keys if not any(p.fullmatch(key) for p in patterns)}
    assert not missing, f"add these to docs/metrics.md: {sorted(missing)}"


def test_every_documented_metric_is_emitted(keys):
    stale = [name for name, p in documented().items() if not any(p.fullmatch(k) for k in keys)]
    assert not stale, f"docs/metrics.md documents what nothing emits: {stale}"
