"""What an environment is: two pure functions and the record they pass around."""

from typing import Any, Protocol, runtime_checkable

from flax import struct
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree


@runtime_checkable
class Env(Protocol):
    """An environment in the protocol of MuJoCo Playground: unbatched, pure, never resetting itself.

    The state is any pytree record with the fields of :class:`State` and a `replace` method; the
    built-in environments return subclasses of it, Playground's its own. Whoever runs the
    environment vectorises it with `jax.vmap` and calls `reset` when an episode ends.

    Environments may further have the attributes below. Presets and checks use them, `step` and
    `reset` do not depend on them.

    - `observation_size`: the number of features of a bare array, or a tree of such numbers.
    - `action_kind`: what an action is; it decides what `action_size` means. An environment without
      it takes continuous actions.

          kind               action                         `action_size`
          "continuous"       floats in [-1, 1], (A,)        A
          "discrete"         an int32 in [0, N), ()         N
          "multi-discrete"   int32 in [0, N_k), (K,)        a tuple of the K numbers N_k
          "binary"           int32, each 0 or 1, (K,)       K

    - `action_size`: see there. A dict of sizes means a dict of actions; `action_kind` is then a
      dict of the same names, for hybrid actions, or one kind for all.
    - `episode_length`: the largest number of steps of an episode.
    - `max_return`: the greatest expected sum of rewards (undiscounted) of an episode, or None where
      it is not known.
    - `draw(ax, state)`: clears a Matplotlib axes and draws one frame of an animation on it.

    Where an observation is a dict with the entry `"action_mask"`, presets rule out the choices that
    it does not allow. It is true (or 1) where a choice is allowed: (N,) for a discrete action; for
    a multi-discrete one the masks of its choices in a row, (sum of N_k,); for a binary one (K,),
    true where it may be 1. Where actions are a dict it is a dict of such arrays by the name of the
    action. Every choice must have something allowed in every observation.
    """

    def reset(self, rng: PRNGKeyArray, /) -> Any:
        """Return the first state of an episode."""
        ...

    def step(self, state: Any, action: PyTree, /) -> Any:
        """Return the state after `action`, with the tree, shapes and dtypes of `state`."""
        ...


class State(struct.PyTreeNode):
    """One moment of an episode; environments subclass it to add what else they must remember.

    Attributes:
        obs: What the agent sees now, any pytree of arrays.
        reward: Reward of the step that led here, a float scalar or a tree of them; 0 after a reset.
        done: Whether the episode is over, terminated or truncated.
        info: Further arrays by name. `info["truncated"]`, a bool, is True where the episode was cut
            off rather than ended: whoever learns from it must bootstrap.
        metrics: Scalars by name, for logging only.

    Example:
        >>> import jax.numpy as jnp
        >>> state = State(
        ...     obs=jnp.zeros(2),
        ...     reward=jnp.zeros(()),
        ...     done=jnp.zeros((), bool),
        ...     info={},
        ...     metrics={},
        ... )
        >>> bool(state.replace(done=jnp.ones((), bool)).done)
        True
    """

    obs: PyTree
    reward: PyTree
    done: Bool[Array, ""]
    info: dict[str, Any]
    metrics: dict[str, Array]
