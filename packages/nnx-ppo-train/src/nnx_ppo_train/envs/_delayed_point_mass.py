"""A point mass in the plane that is seen late."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ._checks import all_finite, continuous_action, positive_int
from ._protocol import State

TIME_STEP = 0.1  # s
ACCELERATION = 2.0  # m/s^2, at |action| = 1
DAMPING = 0.5  # 1/s
WALL = 1.5  # m, the arena is [-WALL, WALL]^2
START_RANGE = 1.0  # m, mass and target start uniformly within +- this
REWARD_DISTANCE = 0.5  # m, at which the reward has dropped to 1/e

FIELDS = ("position", "velocity", "target")


class DelayedPointMassState(State):
    """State of :class:`DelayedPointMass`.

    Attributes:
        position: Position of the mass (m).
        velocity: Velocity of the mass (m/s).
        target: Position of the target (m).
        seen: Ring buffer of the last `delay + 1` undelayed observations; that of step t is in row
            `t % (delay + 1)`.
        steps: Steps taken since the reset.
    """

    position: Float[Array, "2"]
    velocity: Float[Array, "2"]
    target: Float[Array, "2"]
    seen: Float[Array, "slots 6"]
    steps: Int[Array, ""]


class DelayedPointMass:
    """Steer a point mass to a target, knowing only where it was `delay` steps ago.

    The action accelerates the mass along the two axes. Mass and target start at random places, the
    mass at rest; in the first `delay` steps the agent sees that first moment. The reward of a step
    is `exp(-distance / 0.5 m)`, in (0, 1]. Episodes are truncated after `episode_length` steps; an
    action or a state that is not finite terminates them and earns nothing. The greatest return
    depends on the start and is not known in closed form; `episode_length` bounds it.

    Args:
        delay: Steps by which the observation lags, 0 for none.
        episode_length: Steps after which an episode is truncated.
        dict_observation: Whether the observation is a dict with the entries `position`, `velocity`
            and `target` of shape (2,), or their concatenation in this order.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If `delay` is negative or `episode_length` below 1.

    Example:
        >>> env = DelayedPointMass(delay=2, dict_observation=True)
        >>> first = env.reset(jax.random.key(0))
        >>> state = env.step(env.step(first, jnp.ones(2)), jnp.ones(2))
        >>> bool((state.obs["position"] == first.position).all())
        True
    """

    action_size = 2
    action_kind = "continuous"
    max_return = None

    def __init__(
        self, *, delay: int = 3, episode_length: int = 100, dict_observation: bool = False
    ):
        if not isinstance(dict_observation, bool):
            raise TypeError(
                f"DelayedPointMass: dict_observation: expected a bool, got {dict_observation!r}"
            )
        self.delay = positive_int(delay, "DelayedPointMass: delay", least=0)
        self.episode_length = positive_int(episode_length, "DelayedPointMass: episode_length")
        self.dict_observation = dict_observation

    @property
    def observation_size(self) -> int | dict[str, int]:
        """6, or 2 per entry of the dict."""
        return dict.fromkeys(FIELDS, 2) if self.dict_observation else 6

    def reset(self, rng: PRNGKeyArray) -> DelayedPointMassState:
        """Place mass and target, as if the mass had rested there for long."""
        position, target = jax.random.uniform(rng, (2, 2), minval=-START_RANGE, maxval=START_RANGE)
        velocity = jnp.zeros_like(position)
        now = jnp.concatenate([position, velocity, target])
        return DelayedPointMassState(
            obs=self._arrange(now),
            reward=jnp.zeros((), position.dtype),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={"distance": jnp.linalg.norm(target - position)},
            position=position,
            velocity=velocity,
            target=target,
            seen=jnp.tile(now, (self.delay + 1, 1)),
            steps=jnp.zeros((), jnp.int32),
        )

    def step(
        self, state: DelayedPointMassState, action: Float[Array, "2"]
    ) -> DelayedPointMassState:
        """Accelerate for one time step."""
        push, legal = continuous_action(action, 2, "DelayedPointMass")
        velocity = state.velocity + TIME_STEP * (ACCELERATION * push - DAMPING * state.velocity)
        free = state.position + TIME_STEP * velocity
        position = jnp.clip(free, -WALL, WALL)
        velocity = jnp.where(position == free, velocity, 0.0)  # a wall stops the mass
        distance = jnp.linalg.norm(state.target - position)
        steps = state.steps + 1
        slots = self.delay + 1
        now = jnp.concatenate([position, velocity, state.target])
        seen = state.seen.at[steps % slots].set(now)
        failed = ~(legal & all_finite((free, velocity, seen)))
        truncated = (steps >= self.episode_length) & ~failed
        return state.replace(
            obs=self._arrange(seen[(steps + 1) % slots]),  # the oldest row: `delay` steps ago
            reward=jnp.where(failed, 0.0, jnp.exp(-distance / REWARD_DISTANCE)),
            done=truncated | failed,
            info={**state.info, "truncated": truncated},
            metrics={**state.metrics, "distance": distance},
            position=position,
            velocity=velocity,
            seen=seen,
            steps=steps,
        )

    def _arrange(self, observation: Float[Array, "6"]) -> PyTree:
        if not self.dict_observation:
            return observation
        return dict(zip(FIELDS, jnp.split(observation, 3), strict=True))

    def draw(self, ax: Any, state: DelayedPointMassState) -> None:
        """Draw arena, target, mass and the place where the agent sees the mass."""
        late = np.asarray(state.seen)[(int(state.steps) + 1) % (self.delay + 1)]
        ax.clear()
        ax.plot(*np.asarray(state.target), "x", color="C2", markersize=12, label="target")
        ax.plot(*late[:2], "o", color="0.8", markersize=10, label="seen")
        ax.plot(*np.asarray(state.position), "o", color="C0", markersize=10, label="mass")
        ax.set(xlim=(-WALL, WALL), ylim=(-WALL, WALL), aspect="equal")
        ax.legend(loc="upper right")
        ax.set_title(f"step {int(state.steps)}")
