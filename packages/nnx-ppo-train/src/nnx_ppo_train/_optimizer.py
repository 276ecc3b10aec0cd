"""The optimiser that a config describes: a direction, and steps along it."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool
from nnx_stateful import PyTree

from ._hyperparameters import Hyperparameters
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
    """Adam's direction, uphill, after clipping by global norm where asked for.

    Neither the step size nor the weight decay is in it: the one changes from update to update, the
    other acts on some parameters only.
    """
    steps = []
    if hyper.gradient_clipping is not None:
        steps.append(clip_by_global_norm(hyper.gradient_clipping))
    steps.append(optax.scale_by_adam())
    if hyper.weight_decay is not None:
        steps.append(optax.identity())  # the place that the state of AdamW has for it
    return optax.chain(*steps)


def clip_by_global_norm(largest: Any) -> optax.GradientTransformation:
    """Scales gradients down to a norm of at most ``largest``.

    As ``optax.clip_by_global_norm``, but also where the squares overflow: finite gradients stay
    finite. Gradients that are not finite stay so in their own leaves' entries.
    """

    def clipped(grads: PyTree) -> PyTree:
        norm = optax.tree.norm(grads)
        return jax.tree.map(lambda g: jnp.where(norm < largest, g, g / norm * largest), grads)

    def clipped_large(grads: PyTree) -> PyTree:
        greatest = jnp.max(jnp.stack([jnp.max(jnp.abs(g)) for g in jax.tree.leaves(grads)]))
        return clipped(jax.tree.map(lambda g: g / greatest * (2 * largest), grads))

    def update(grads: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        del params
        fits = jnp.isfinite(optax.tree.norm(grads))
        return jax.lax.cond(fits, clipped, clipped_large, grads), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


class Optimizer:
    """What turns gradients into new parameters: the config's own, or the user's.

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
        """Whether the learning rate is a matter of the user's own optimiser."""
        return self._override is not None

    def init(self, params: PyTree) -> PyTree:
        """Returns the state of the optimiser before the first update."""
        packed, _ = self._packed(params)
        return self._transformation(Hyperparameters.of(self._config)).init(packed)

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
          The new parameters, the new state, and () whether gradients and parameters, and the state
          of the config's own optimizer, are finite.
        """
        packed, unpacked = self._packed(params)
        gradient = self._packed(grads)[0]
        updates, state = self._transformation(hyper).update(gradient, state, packed)
        if hyper.weight_decay is not None and self._override is None:
            updates = updates + hyper.weight_decay * self._packed(self._decaying(params))[0]
        factor = rate if self.has_own_rate else -rate
        packed = optax.apply_updates(packed, optax.tree.scale(factor, updates))
        # A user's own state may hold infinity on purpose, as the best loss so far.
        checked = (gradient, packed, () if self.has_own_rate else state)
        return unpacked(packed), state, all_finite(checked)

    def _decaying(self, params: PyTree) -> PyTree:
        """The parameters on which weight decay acts, and zeros for the others."""
        mask = self._config.weight_decay_mask
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: leaf if decays(mask, path, leaf) else jnp.zeros_like(leaf), params
        )

    def _packed(self, tree: PyTree) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
        """The tree as the transformation sees it, and the way back."""
        return ravel_pytree(tree) if self._override is None else (tree, lambda same: same)

    def _transformation(self, hyper: Hyperparameters) -> optax.GradientTransformation:
        return make_direction(hyper) if self._override is None else self._override


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
        usual = getattr(PPOConfig, name)
        if getattr(config, name) != usual:
            raise ValueError(
                f"PPOConfig.{name}: expected {usual!r} (the default) where train_ppo gets an "
                f"optimizer of your own, which decides it, got {getattr(config, name)!r}; put it "
                "into that optimizer"
            )
