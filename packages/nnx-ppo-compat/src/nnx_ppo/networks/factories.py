"""Ready-made networks, with the published order of arguments."""

from collections.abc import Callable, Sequence
from typing import Any

from flax import nnx
from nnx_ppo_train import presets
from nnx_stateful import Sequential, make_mlp, make_mlp_layers

__all__ = ["make_mlp", "make_mlp_actor_critic", "make_mlp_layers"]


def make_mlp_actor_critic(
    obs_size: int,
    action_size: int,
    actor_hidden_sizes: Sequence[int],
    critic_hidden_sizes: Sequence[int],
    rngs: nnx.Rngs,
    activation: Callable[..., Any] | str = nnx.relu,
    normalize_obs: bool = True,
    initializer_scale: float = 1.0,
    entropy_weight: float = 1e-2,
    min_std: float = 1e-1,
    std_scale: float = 1.0,
) -> Sequential:
    """Builds :func:`nnx_ppo_train.presets.make_mlp_actor_critic`, with the published defaults.

    Args:
      obs_size: width of the observation.
      action_size: width of the action.
      actor_hidden_sizes: widths of the actor's hidden layers.
      critic_hidden_sizes: widths of the critic's hidden layers.
      rngs: source of initial parameters and of the sampler's key.
      activation: "swish", "tanh", "relu" or a function.
      normalize_obs: whether observations are normalised.
      initializer_scale: variance scaling of every layer.
      entropy_weight: weight of the entropy bonus.
      min_std: added to the standard deviation of actions.
      std_scale: factor of it.

    Example:
      >>> import jax.numpy as jnp
      >>> net = make_mlp_actor_critic(3, 2, [16, 16], [16], nnx.Rngs(0), "swish")
      >>> net(net.initialize_state(5), jnp.ones((5, 3))).output.actions.shape
      (5, 2)
    """
    return presets.make_mlp_actor_critic(
        obs_size,
        action_size,
        rngs,
        actor_hidden_sizes=actor_hidden_sizes,
        critic_hidden_sizes=critic_hidden_sizes,
        activation=activation,
        normalize_obs=normalize_obs,
        entropy_weight=entropy_weight,
        min_std=min_std,
        std_scale=std_scale,
        initializer_scale=initializer_scale,
    )
