"""The optimiser that a config describes: a direction, and steps along it."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree

from ._hyperparameters import Hyperparameters, Number
from ._nonfinite import all_finite
from ._ppo_config import DecayMask, PPOConfig

_OF_THE_OPTIMIZER = (
    "learning_rate",
    "learning_rate_schedule",
    "gradient_clipping",
    "weight_decay",
    "weight_decay_mask",
)

_NO_WEIGHTS = re.compile("bias|log|std|scale|gain|delay|tau|time|rate|decay|gamma|threshold|state")
"""Words in the names of parameters that are not connection weights."""


def make_direction(hyper: Hyperparameters) -> optax.GradientTransformation:
    """Adam's direction, uphill, of a gradient that was clipped where asked for.

    Neither clipping nor step size nor weight decay is in it: the gradient is checked after the
    first, the second changes from update to update, the third acts on some parameters only.
    """
    # Places in the state that optax's own chain of these would have.
    clipping = [] if hyper.gradient_clipping is None else [optax.identity()]
    decay = [] if hyper.weight_decay is None else [optax.identity()]
    return optax.chain(*clipping, optax.scale_by_adam(), *decay)


def clipped_by_norm(gradient: Float[Array, " N"], largest: Number) -> Float[Array, " N"]:
    """Scales a gradient down to a norm of at most ``largest``.

    As ``optax.clip_by_global_norm``, but a finite gradient whose norm overflows is scaled down,
    too, not turned into zeros.
    """

    def clipped(gradient: Array) -> Array:
        norm = jnp.sqrt(jnp.sum(jnp.square(gradient)))
        return jnp.where(norm < largest, gradient, gradient / norm * largest)

    def clipped_large(gradient: Array) -> Array:
        unit = gradient / jnp.max(jnp.abs(gradient))
        return unit / jnp.sqrt(jnp.sum(jnp.square(unit))) * largest

    fits = jnp.isfinite(jnp.sum(jnp.square(gradient)))
    return jax.lax.cond(fits, clipped, clipped_large, gradient)


class Optimizer:
    """Optimizer of the parameters: the config's own, or the user's.

    The config's own treats every number alike, so it sees all parameters as one vector: a few
    operations however many arrays there are. A user's sees the tree.

    Args:
      config: the algorithm.
      override: an optax transformation to use instead, complete with its own learning rate.

    Raises:
      TypeError: if the override is no optax transformation.
      ValueError: if the config sets what an override decides.
    """

    def __init__(self, config: PPOConfig, override: optax.GradientTransformation | None = None):
        if override is not None:
            _check_override(config, override)
        self._config = config
        self._override = override

    @property
    def has_own_rate(self) -> bool:
        """True if the user's own optimizer sets the learning rate."""
        return self._override is not None

    def init(self, params: PyTree) -> PyTree:
        """Returns the state of the optimiser before the first update."""
        if self._override is not None:
            return self._override.init(params)
        return make_direction(Hyperparameters.of(self._config)).init(ravel_pytree(params)[0])

    def step(
        self,
        hyper: Hyperparameters,
        rate: Array,
        grads: PyTree,
        state: PyTree,
        params: PyTree,
    ) -> tuple[PyTree, PyTree, Bool[Array, ""]]:
        """Takes one step.

        Args:
          hyper: the config's numbers.
          rate: step size; for a user's own optimiser the factor of its step.
          grads: gradients, in the tree of the parameters.
          state: state of the optimiser.
          params: parameters.

        Returns:
          The new parameters, the new state, and () whether the step is finite.
        """
        if self._override is not None:
            updates, state = self._override.update(grads, state, params)
            following = optax.apply_updates(params, optax.tree.scale(rate, updates))
            # The state may hold infinity on purpose, as the best loss so far.
            return following, state, all_finite((grads, following))
        packed, unpacked = ravel_pytree(params)
        gradient = ravel_pytree(grads)[0]
        if hyper.gradient_clipping is not None:
            gradient = clipped_by_norm(gradient, hyper.gradient_clipping)
        # Adam's own state is finite with the squares; their sum may overflow where none of them
        # does.
        finite = jnp.all(jnp.isfinite(jnp.square(gradient)))
        direction, state = make_direction(hyper).update(gradient, state, packed)
        if hyper.weight_decay is not None:
            decaying = ravel_pytree(self._decaying(params))[0]
            direction = direction + hyper.weight_decay * decaying
        stepped: Any = optax.apply_updates(packed, optax.tree.scale(-rate, direction))
        return unpacked(stepped), state, finite & jnp.all(jnp.isfinite(stepped))

    def _decaying(self, params: PyTree) -> PyTree:
        """The parameters on which weight decay acts, and zeros for the others."""
        mask = self._config.weight_decay_mask
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: leaf if decays(mask, path, leaf) else jnp.zeros_like(leaf), params
        )


def parameter_name(path: Any) -> str:
    """Returns a parameter's path as text, such as "layers/0/linear/kernel".

    Args:
      path: its path in ``nnx.state(networks, nnx.Param)``.
    """
    return jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value")


def decays(mask: str | DecayMask, path: Any, leaf: Array) -> bool:
    """Returns whether weight decay acts on a parameter.

    Args:
      mask: ``PPOConfig.weight_decay_mask``.
      path: the parameter's path.
      leaf: the parameter.
    """
    name = parameter_name(path)
    if callable(mask):
        return bool(mask(name))
    # The name decides, too: a graph's biases have three axes and its learnable delays two.
    own = next((part for part in reversed(name.split("/")) if not part.isdigit()), "")
    return mask == "all" or (leaf.ndim >= 2 and _NO_WEIGHTS.search(own) is None)


def _check_override(config: PPOConfig, override: optax.GradientTransformation) -> None:
    if not (callable(getattr(override, "init", None)) and callable(getattr(override, "update", 0))):
        raise TypeError(
            "optimizer: expected an optax transformation, such as optax.sgd(1e-2), got "
            f"{override!r}"
        )
    for name in _OF_THE_OPTIMIZER:
        usual = getattr(type(config), name)
        if getattr(config, name) != usual:
            raise ValueError(
                f"PPOConfig.{name}: expected {usual!r} (the default) where train_ppo gets an "
                f"optimizer of your own, which decides it, got {getattr(config, name)!r}; put it "
                "into that optimizer"
            )
