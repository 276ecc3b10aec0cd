"""Returns and lengths of training episodes, counted across rollouts."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree

EPISODES = "train/episodes"
"""Number of episodes that ended; where it is 0, their means are left out of what is logged."""

MEANS = ("train/episode_reward", "train/episode_length")
"""Means over the episodes that ended."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EpisodeTally:
    """Episodes under way.

    Attributes:
      returns: (B,) reward summed over keys since the episode began.
      lengths: (B,) steps since then.
    """

    returns: Float[Array, " B"]
    lengths: Float[Array, " B"]

    @classmethod
    def zero(cls, n_envs: int) -> "EpisodeTally":
        """Returns the tally of episodes that have just begun."""
        return cls(jnp.zeros(n_envs), jnp.zeros(n_envs))


def tally_episodes(
    tally: EpisodeTally,
    rewards: PyTree,
    done: Bool[Array, "T B"],
    truncated: Bool[Array, "T B"],
    nonfinite: Bool[Array, "T B"] | None = None,
) -> tuple[EpisodeTally, dict[str, Float[Array, ""]]]:
    """Follows the episodes through a rollout.

    Args:
      tally: episodes under way before it.
      rewards: tree of rewards, leaves (T, B).
      done: (T, B) ends of episodes.
      truncated: (T, B) ends by a limit.
      nonfinite: (T, B) steps with values that are not finite; episodes that end with one are left
        out of the means.

    Returns:
      The episodes under way after it, and ``train/episode_reward``, ``train/episode_length``
      (means over the episodes that ended, 0 if none did), ``train/episodes`` (their number) and
      ``train/ends/terminated``, ``train/ends/truncated``, ``train/ends/nonfinite`` (numbers of
      ends by reason).
    """
    total = sum(jax.tree.leaves(rewards), jnp.zeros(done.shape))
    broken = jnp.zeros_like(done) if nonfinite is None else done & nonfinite
    counted = done & ~broken

    def step(
        tally: EpisodeTally, inputs: tuple[Array, Array, Array]
    ) -> tuple[EpisodeTally, tuple[Array, Array]]:
        reward, ended, counts = inputs
        returns, lengths = tally.returns + reward, tally.lengths + 1
        going_on = EpisodeTally(jnp.where(ended, 0, returns), jnp.where(ended, 0, lengths))
        return going_on, (jnp.where(counts, returns, 0).sum(), jnp.where(counts, lengths, 0).sum())

    tally, (returns, lengths) = jax.lax.scan(step, tally, (total, done, counted))
    episodes = counted.sum()
    return tally, {
        "train/episode_reward": returns.sum() / jnp.maximum(episodes, 1),
        "train/episode_length": lengths.sum() / jnp.maximum(episodes, 1),
        EPISODES: episodes,
        "train/ends/terminated": (counted & ~truncated).sum(),
        "train/ends/truncated": (counted & truncated).sum(),
        "train/ends/nonfinite": broken.sum(),
    }
