"""A chain of bodies, each with its own observation, action and reward."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ._checks import all_finite, continuous_action, positive_int
from ._protocol import State

TIME_STEP = 0.05  # s
STIFFNESS = 2.0  # N/m, of the springs between neighbours
DAMPING = 0.5  # N s/m
FORCE_LIMIT = 5.0  # N, at |action| = 1; enough to hold any target
TARGET_RANGE = 0.5  # m
REWARD_DISTANCE = 0.25  # m, at which the reward has dropped to 1/e


class BodyChainState(State):
    """State of :class:`BodyChain`.

    Attributes:
        displacement: Displacement of each body across the chain (m).
        velocity: Its velocity (m/s).
        target: Where each body should be (m).
        steps: Steps taken since the reset.
    """

    displacement: Float[Array, " bodies"]
    velocity: Float[Array, " bodies"]
    target: Float[Array, " bodies"]
    steps: Int[Array, ""]


class BodyChain:
    """Bring every body of a chain to its own target, though neighbours pull at each other.

    Bodies of 1 kg move across the chain. Springs join each body to the next and the first one to a
    fixed root at 0; the far end is free:

        y_i'' = 2 (y_{i-1} - y_i) + 2 (y_{i+1} - y_i) - 0.5 y_i' + 5 action_i

    Observations, actions and rewards are dicts by body name (`body_0`, `body_1`, ...). A body sees
    its displacement, velocity and target, not its neighbours, whose pull it must balance: so it
    pays to let bodies communicate. Its reward in a step is `exp(-(error / 0.25 m)^2)`, in (0, 1].
    Episodes are truncated after `episode_length` steps; an action or a state that is not finite
    terminates them and earns nothing. The greatest return depends on the start
    and is not known in closed form; `episode_length` per body bounds it.

    Args:
        n_bodies: Number of bodies.
        episode_length: Steps after which an episode is truncated.

    Raises:
        TypeError: If an argument is no integer.
        ValueError: If an argument is below 1.

    Example:
        >>> env = BodyChain(n_bodies=2)
        >>> state = env.reset(jax.random.key(0))
        >>> state = env.step(state, {"body_0": jnp.zeros(1), "body_1": jnp.ones(1)})
        >>> sorted(state.reward), state.obs["body_1"].shape
        (['body_0', 'body_1'], (3,))
    """

    action_kind = "continuous"
    max_return = None

    def __init__(self, *, n_bodies: int = 3, episode_length: int = 100):
        self.n_bodies = positive_int(n_bodies, "BodyChain: n_bodies")
        self.episode_length = positive_int(episode_length, "BodyChain: episode_length")
        self.body_names = tuple(f"body_{i}" for i in range(self.n_bodies))

    @property
    def observation_size(self) -> dict[str, int]:
        """3 per body: displacement, velocity, target."""
        return dict.fromkeys(self.body_names, 3)

    @property
    def action_size(self) -> dict[str, int]:
        """One force per body."""
        return dict.fromkeys(self.body_names, 1)

    def reset(self, rng: PRNGKeyArray) -> BodyChainState:
        """Draw the targets; the chain is straight and at rest."""
        target = jax.random.uniform(
            rng, (self.n_bodies,), minval=-TARGET_RANGE, maxval=TARGET_RANGE
        )
        zeros = jnp.zeros_like(target)
        return BodyChainState(
            obs=self._observe(zeros, zeros, target),
            reward=self._by_name(zeros),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={"mean_error": jnp.abs(target).mean()},
            displacement=zeros,
            velocity=jnp.zeros_like(target),
            target=target,
            steps=jnp.zeros((), jnp.int32),
        )

    def step(self, state: BodyChainState, action: dict[str, Float[Array, "1"]]) -> BodyChainState:
        """Push every body for one time step (semi-implicit Euler)."""
        y = state.displacement
        stretch = y - jnp.pad(y, (1, 0))[:-1]  # to the previous body, the root first
        pull = jnp.pad(stretch, (0, 1))[1:] - stretch
        push, legal = self._forces(action)
        force = STIFFNESS * pull - DAMPING * state.velocity + FORCE_LIMIT * push
        velocity = state.velocity + TIME_STEP * force
        y = y + TIME_STEP * velocity
        error = y - state.target
        steps = state.steps + 1
        failed = ~(legal & all_finite((y, velocity, error)))
        truncated = (steps >= self.episode_length) & ~failed
        reward = jnp.where(failed, 0.0, jnp.exp(-jnp.square(error / REWARD_DISTANCE)))
        return state.replace(
            obs=self._observe(y, velocity, state.target),
            reward=self._by_name(reward),
            done=truncated | failed,
            info={**state.info, "truncated": truncated},
            metrics={**state.metrics, "mean_error": jnp.abs(error).mean()},
            displacement=y,
            velocity=velocity,
            steps=steps,
        )

    def _forces(self, action: Any) -> tuple[Float[Array, " bodies"], Bool[Array, ""]]:
        if not isinstance(action, dict) or set(action) != set(self.body_names):
            got = sorted(action) if isinstance(action, dict) else type(action).__name__
            raise ValueError(
                f"BodyChain: expected an action dict with the entries {list(self.body_names)}, "
                f"got {got}"
            )
        pushes, legal = zip(
            *(continuous_action(action[n], 1, f"BodyChain, {n}") for n in self.body_names),
            strict=True,
        )
        return jnp.concatenate(pushes), jnp.stack(legal).all()

    def _observe(self, *columns: Float[Array, " bodies"]) -> dict[str, Float[Array, "3"]]:
        return self._by_name(jnp.stack(columns, axis=-1))

    def _by_name(self, rows: Float[Array, "bodies ..."]) -> dict[str, Array]:
        return dict(zip(self.body_names, rows, strict=True))

    def draw(self, ax: Any, state: BodyChainState) -> None:
        """Draw the chain from its root on the left, and the targets."""
        places = np.arange(self.n_bodies + 1)
        ax.clear()
        ax.plot(places[1:], np.asarray(state.target), "x", color="C2", markersize=10)
        ax.plot(places, np.append(0.0, np.asarray(state.displacement)), "o-", color="C0")
        ax.set(xlim=(-0.5, self.n_bodies + 0.5), ylim=(-1.2, 1.2), xlabel="body")
        ax.set_title(f"step {int(state.steps)}")
