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
    - `action_size`: the number of entries of an action (`"continuous"`) or of choices
      (`"discrete"`), or a dict of such numbers.
    - `action_kind`: `"continuous"` (entries in [-1, 1]) or `"discrete"` (an int32 scalar).
    - `episode_length`: the largest number of steps of an episode.
    - `max_return`: the greatest expected sum of rewards (undiscounted) of an episode, or None where
      it is not known.
    - `draw(ax, state)`: clears a Matplotlib axes and draws one frame of an animation on it.
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
