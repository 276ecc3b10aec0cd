"""Random keys: each purpose has its own, so that no key is used twice."""

import enum

import jax
from jaxtyping import Array, Key

from ._config import TrainConfig

_TAG = 0x70706F  # what the keys of a run have in common, and no other key of its seed


class Purpose(enum.IntEnum):
    """What a run draws random numbers for."""

    ENV_RESET = 0
    NOISE = 1
    ITERATIONS = 2
    EVALUATION = 3
    VIDEO = 4
    NEW_EPISODES = 5


def key_for(seed: int, purpose: Purpose) -> Key[Array, ""]:
    """Returns the run's key for a purpose.

    ``nnx.Rngs(seed)``, from which networks draw their parameters, folds small counts into the same
    key: the tag keeps clear of them.
    """
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _TAG), purpose)


def new_episodes_key(seed: int, steps: int, purpose: Purpose) -> Key[Array, ""]:
    """Returns the key of episodes that begin where a run goes on: not those of its beginning.

    Args:
      seed: the run's seed.
      steps: environment steps taken so far.
      purpose: what is drawn.
    """
    key = key_for(seed, Purpose.NEW_EPISODES)
    for word in (steps >> 32, steps % 2**32, purpose):  # fold_in reads 32 bits
        key = jax.random.fold_in(key, word)
    return key


def evaluation_key(config: TrainConfig, steps: int) -> Key[Array, ""]:
    """Returns the key of the evaluation after a number of steps: fixed, or fresh each time."""
    key = key_for(config.seed, Purpose.EVALUATION)
    if config.eval.seeds == "fixed":
        return key
    return jax.random.fold_in(key, 1 + steps // config.ppo.steps_per_iteration)
