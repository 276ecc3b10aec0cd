"""Feed-forward actor and critic."""

from collections.abc import Callable, Sequence
from typing import Any

from flax import nnx
from jax.typing import DTypeLike
from nnx_stateful import Dense, Normalizer, Sequential, StatefulModule, make_mlp_layers

from .._adapter import PPOAdapter
from .._validate import check_bool, check_instance, check_number, check_whole_number
from ..samplers import NormalTanhSampler
from ._heads import action_head, normalizer, pick, value_head
from ._interface import Interface
from ._mask import beside_mask, on_features, take_mask_apart
from ._options import NetworkOptions

ACTIVATIONS = {"swish": nnx.swish, "tanh": nnx.tanh, "relu": nnx.relu}


def make_mlp_actor_critic(
    obs_size: int,
    action_size: int,
    rngs: nnx.Rngs,
    *,
    actor_hidden_sizes: Sequence[int] = (64, 64),
    critic_hidden_sizes: Sequence[int] = (64, 64),
    activation: str | Callable[..., Any] = "swish",
    normalize_obs: bool = True,
    entropy_weight: float = 1e-2,
    min_std: float = 1e-3,
    std_scale: float = 1.0,
    initializer_scale: float = 1.0,
    compute_dtype: DTypeLike | None = None,
) -> Sequential:
    """Builds separate MLPs for actor and critic, for flat observations and continuous actions.

    Args:
      obs_size: width of the observation (B, obs_size).
      action_size: width of the action (B, action_size), in (-1, 1).
      rngs: source of initial parameters and of the sampler's key.
      actor_hidden_sizes: widths of the actor's hidden layers.
      critic_hidden_sizes: widths of the critic's hidden layers.
      activation: "swish", "tanh", "relu" or a function.
      normalize_obs: whether observations are normalised by running statistics.
      entropy_weight: weight of the entropy bonus.
      min_std: added to the standard deviation of actions.
      std_scale: factor of it.
      initializer_scale: variance scaling (fan in, uniform) of every layer.
      compute_dtype: type of the operands of every layer's matrix product, such as "bfloat16"; see
        :class:`nnx_stateful.Dense`.

    Returns:
      A network whose output is a PPONetworkOutput.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range, the activation has
        no such name, or ``compute_dtype`` is no float type of 16 bits or more.

    Example:
      >>> net = make_mlp_actor_critic(3, 2, nnx.Rngs(0))
      >>> len(net)
      2
    """
    where = "make_mlp_actor_critic"
    for name, size in (("obs_size", obs_size), ("action_size", action_size)):
        check_whole_number(size, f"{where}: {name}", 1)
    for hidden in (actor_hidden_sizes, critic_hidden_sizes):
        check_instance(hidden, f"{where}: hidden sizes", Sequence, "(64, 64)")
        for size in hidden:
            check_whole_number(size, f"{where}: hidden sizes", 1)
    check_bool(normalize_obs, f"{where}: normalize_obs")
    check_number(initializer_scale, f"{where}: initializer_scale", above=0.0)
    check_instance(rngs, f"{where}: rngs", nnx.Rngs, "nnx.Rngs(0)")
    nonlinearity = _activation(activation)
    kernel_init = nnx.initializers.variance_scaling(initializer_scale, "fan_in", "uniform")
    sampler = NormalTanhSampler(rngs, entropy_weight, min_std, std_scale)

    def layers(hidden: Sequence[int], out: int) -> list[Dense]:
        sizes = [obs_size, *hidden, out]
        return make_mlp_layers(
            sizes, rngs, nonlinearity, False, compute_dtype=compute_dtype, kernel_init=kernel_init
        )

    actor = layers(actor_hidden_sizes, 2 * action_size)
    critic = Sequential(layers(critic_hidden_sizes, 1))
    adapter = PPOAdapter(action=Sequential([*actor, sampler]), value=critic)
    return Sequential([*([Normalizer(obs_size)] if normalize_obs else []), adapter])


def _activation(given: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(given, str):
        return given
    if given not in ACTIVATIONS:
        raise ValueError(
            f"make_mlp_actor_critic: activation: expected one of {sorted(ACTIVATIONS)} or a "
            f"function, got {given!r}"
        )
    return ACTIVATIONS[given]


def mlp_network(env: Any, rngs: nnx.Rngs, options: NetworkOptions) -> StatefulModule:
    """The preset ``mlp``: MLPs for actor and critic, for any environment."""
    interface = Interface.of(env)
    actor_key, critic_key = interface.parts(options)

    def trunk(key: str | None) -> tuple[list[StatefulModule], int]:
        sizes = [interface.width(key), *[options.hidden_size] * options.hidden_layers]
        if not options.hidden_layers:
            return [pick(key)], sizes[-1]
        layers = make_mlp_layers(sizes, rngs, nnx.swish, compute_dtype=options.compute_dtype)
        return [pick(key), *layers], sizes[-1]

    layers, features = trunk(actor_key)
    action = action_head(interface, features, rngs, options)
    shared = normalizer(interface, options)
    if interface.shares(options, usual=False):
        shared += layers
        value = value_head(interface, features, rngs, options)
    else:
        action = Sequential([*beside_mask(interface, layers), action])
        critic, features = trunk(critic_key)
        value = Sequential([*critic, value_head(interface, features, rngs, options)])
    return Sequential(
        [
            *take_mask_apart(interface),
            *beside_mask(interface, shared),
            PPOAdapter(action=action, value=on_features(interface, value)),
        ]
    )
