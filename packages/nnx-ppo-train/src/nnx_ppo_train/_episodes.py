"""Returns and lengths of training episodes, counted across rollouts."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree


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
    tally: EpisodeTally, rewards: PyTree, done: Bool[Array, "T B"]
) -> tuple[EpisodeTally, dict[str, Float[Array, ""]]]:
    """Follows the episodes through a rollout.

    Args:
      tally: episodes under way before it.
      rewards: tree of rewards, leaves (T, B).
      done: (T, B) ends of episodes.

    Returns:
      The episodes under way after it, and ``train/episode_reward``, ``train/episode_length``
      (means over the episodes that ended, NaN if none did) and ``train/episodes`` (their number).
    """
    total = sum(jax.tree.leaves(rewards), jnp.zeros(done.shape))

    def step(
        tally: EpisodeTally, inputs: tuple[Array, Array]
    ) -> tuple[EpisodeTally, tuple[Array, Array]]:
        reward, ended = inputs
        returns, lengths = tally.returns + reward, tally.lengths + 1
        going_on = EpisodeTally(jnp.where(ended, 0, returns), jnp.where(ended, 0, lengths))
        return going_on, (jnp.where(ended, returns, 0).sum(), jnp.where(ended, lengths, 0).sum())

    tally, (returns, lengths) = jax.lax.scan(step, tally, (total, done))
    episodes = done.sum()
    return tally, {
        "train/episode_reward": returns.sum() / episodes,
        "train/episode_length": lengths.sum() / episodes,
        "train/episodes": episodes,
    }
