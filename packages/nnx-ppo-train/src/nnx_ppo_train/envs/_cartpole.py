"""The cart-pole with a continuous force, fully observed or by positions alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._checks import all_finite, continuous_action, finite_float, positive_int
from ._protocol import State

GRAVITY = 9.8  # m/s^2
CART_MASS = 1.0  # kg
POLE_MASS = 0.1  # kg
POLE_HALF_LENGTH = 0.5  # m
FORCE_LIMIT = 10.0  # N, at |action| = 1
TIME_STEP = 0.02  # s
POSITION_LIMIT = 2.4  # m
ANGLE_LIMIT = 12 * 2 * np.pi / 360  # rad
START_RANGE = 0.05  # each of the four quantities starts uniformly within +- this


def cartpole_dynamics(kinematics: Float[Array, "4"], force: Float[Array, ""]) -> Float[Array, "4"]:
    """Advance cart and pole by one explicit Euler step of 0.02 s.

    The equations of Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve
    difficult learning control problems", without friction, with the constants and the integrator of
    Gymnasium's CartPole-v1. With total mass `M`, pole mass `m` and half-length `l`,

        h      = (force + m l angular_velocity^2 sin(angle)) / M
        angle'' = (g sin(angle) - h cos(angle)) / (l (4/3 - m cos(angle)^2 / M))
        x''     = h - m l angle'' cos(angle) / M

    Args:
        kinematics: Cart position (m) and velocity (m/s), pole angle from upright (rad) and
            angular velocity (rad/s).
        force: Horizontal force on the cart in newtons.

    Returns:
        The kinematics one time step later.

    Example:
        >>> cartpole_dynamics(jnp.zeros(4), jnp.asarray(0.0)).tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    position, velocity, angle, angular_velocity = kinematics
    mass = CART_MASS + POLE_MASS
    moment = POLE_MASS * POLE_HALF_LENGTH
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    push = (force + moment * angular_velocity**2 * sin) / mass
    angular_acceleration = (GRAVITY * sin - cos * push) / (
        POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos**2 / mass)
    )
    acceleration = push - moment * angular_acceleration * cos / mass
    return jnp.stack(
        [
            position + TIME_STEP * velocity,
            velocity + TIME_STEP * acceleration,
            angle + TIME_STEP * angular_velocity,
            angular_velocity + TIME_STEP * angular_acceleration,
        ]
    )


class CartPoleState(State):
    """State of :class:`CartPole`.

    Attributes:
        kinematics: Cart position, velocity, pole angle, angular velocity (SI units).
        steps: Steps taken since the reset.
        gust_key: Key of the episode's gusts.
    """

    kinematics: Float[Array, "4"]
    steps: Int[Array, ""]
    gust_key: PRNGKeyArray


class CartPole:
    """Balance a pole on a cart by pushing the cart, in gusty wind.

    The action is one number in [-1, 1], the force in units of 10 N. Each step earns 1. The episode
    terminates unless the cart is within 2.4 m of the center and the pole within 12 degrees of
    upright, and is truncated after `episode_length` steps, so `max_return` is `episode_length`
    and is reached by policies that never drop the pole. An action or a state that is not finite
    terminates it and earns nothing.

    A random horizontal force ("gust") acts on the cart in every step. It is what makes the
    velocities matter: without it a reaction to the positions alone, which cannot damp, keeps the
    pole up for 500 steps, because nothing feeds the swinging. With the default gusts the best
    linear memoryless policy on the positions earns about 40 % of the maximum, one that also
    remembers the previous positions all of it (`benchmarks/cartpole_baselines.py`). `gust=0` gives
    the classic deterministic task.

    Args:
        observe_velocities: Whether the observation is (position, velocity, angle, angular velocity)
            or (position, angle) alone, in SI units.
        episode_length: Steps after which an episode is truncated.
        gust: Standard deviation of the random force in newtons, drawn anew in every step.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If `episode_length` is below 1 or `gust` negative or not finite.

    Example:
        >>> env = CartPole(observe_velocities=False)
        >>> state = env.reset(jax.random.key(0))
        >>> state = env.step(state, jnp.array([0.5]))
        >>> state.obs.shape, float(state.reward), env.max_return
        ((2,), 1.0, 500.0)
    """

    action_size = 1
    action_kind = "continuous"

    def __init__(
        self, *, observe_velocities: bool = True, episode_length: int = 500, gust: float = 2.0
    ):
        if not isinstance(observe_velocities, bool):
            raise TypeError(
                f"CartPole: observe_velocities: expected a bool, got {observe_velocities!r}"
            )
        self.observe_velocities = observe_velocities
        self.episode_length = positive_int(episode_length, "CartPole: episode_length")
        self.gust = finite_float(gust, "CartPole: gust", least=0.0)

    @property
    def observation_size(self) -> int:
        """4 with velocities, 2 without."""
        return 4 if self.observe_velocities else 2

    @property
    def max_return(self) -> float:
        """One per step, for the whole episode."""
        return float(self.episode_length)

    def reset(self, rng: PRNGKeyArray) -> CartPoleState:
        """Start near the upright rest, each quantity uniform in [-0.05, 0.05]."""
        start_key, gust_key = jax.random.split(rng)
        kinematics = jax.random.uniform(start_key, (4,), minval=-START_RANGE, maxval=START_RANGE)
        return CartPoleState(
            obs=self._observe(kinematics),
            reward=jnp.zeros((), kinematics.dtype),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            kinematics=kinematics,
            steps=jnp.zeros((), jnp.int32),
            gust_key=gust_key,
        )

    def step(self, state: CartPoleState, action: Float[Array, "1"]) -> CartPoleState:
        """Push for one time step."""
        push, legal = continuous_action(action, 1, "CartPole")
        force = FORCE_LIMIT * push[0]
        if self.gust > 0.0:
            key = jax.random.fold_in(state.gust_key, state.steps)
            force = force + self.gust * jax.random.normal(key, (), force.dtype)
        kinematics = cartpole_dynamics(state.kinematics, force.astype(state.kinematics.dtype))
        steps = state.steps + 1
        # Written as what is good, negated: every comparison with NaN is false.
        in_limits = (jnp.abs(kinematics[0]) <= POSITION_LIMIT) & (
            jnp.abs(kinematics[2]) <= ANGLE_LIMIT
        )
        legal = legal & all_finite(kinematics)
        terminated = ~(in_limits & legal)
        truncated = (steps >= self.episode_length) & ~terminated
        return state.replace(
            obs=self._observe(kinematics),
            reward=legal.astype(state.reward.dtype),
            done=terminated | truncated,
            info={**state.info, "truncated": truncated},
            kinematics=kinematics,
            steps=steps,
        )

    def _observe(self, kinematics: Float[Array, "4"]) -> Float[Array, " features"]:
        return kinematics if self.observe_velocities else kinematics[::2]

    def draw(self, ax: Any, state: CartPoleState) -> None:
        """Draw track, cart and pole on a Matplotlib axes."""
        x, _, angle, _ = np.asarray(state.kinematics, float)
        ax.clear()
        ax.axhline(0.0, color="0.8", zorder=0)
        for wall in (-POSITION_LIMIT, POSITION_LIMIT):
            ax.axvline(wall, color="0.8", zorder=0)
        ax.plot([x - 0.2, x + 0.2], [0.0, 0.0], linewidth=12, color="0.3", solid_capstyle="butt")
        tip = 2 * POLE_HALF_LENGTH
        ax.plot([x, x + tip * np.sin(angle)], [0.0, tip * np.cos(angle)], linewidth=4, color="C1")
        ax.set(xlim=(-2.6, 2.6), ylim=(-0.4, 1.4), aspect="equal", yticks=[], xlabel="position (m)")
        ax.set_title(f"step {int(state.steps)}")
