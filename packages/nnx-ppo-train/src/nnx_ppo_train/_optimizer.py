"""The optimiser that a config describes: a direction, and steps along it."""

from collections.abc import Callable

import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from nnx_stateful import PyTree

from ._hyperparameters import Hyperparameters
from ._ppo_config import PPOConfig

_OF_THE_OPTIMIZER = ("learning_rate", "learning_rate_schedule", "gradient_clipping", "weight_decay")


def make_direction(hyper: Hyperparameters) -> optax.GradientTransformation:
    """Adam's direction, or AdamW's, uphill, after clipping by global norm where asked for.

    The step size is not in it: it changes from update to update.
    """
    steps = []
    if hyper.gradient_clipping is not None:
        steps.append(optax.clip_by_global_norm(hyper.gradient_clipping))
    steps.append(optax.scale_by_adam())
    if hyper.weight_decay is not None:
        steps.append(optax.add_decayed_weights(hyper.weight_decay))
    return optax.chain(*steps)


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
    ) -> tuple[PyTree, PyTree]:
        """Takes one step.

        Args:
          hyper: the config's numbers.
          rate: step size; for a user's own optimiser the factor of its step.
          grads: gradients, in the tree of the parameters.
          state: state of the optimiser.
          params: parameters.

        Returns:
          The new parameters and the new state.
        """
        packed, unpacked = self._packed(params)
        updates, state = self._transformation(hyper).update(self._packed(grads)[0], state, packed)
        factor = rate if self.has_own_rate else -rate
        packed = optax.apply_updates(packed, optax.tree.scale(factor, updates))
        return unpacked(packed), state

    def _packed(self, tree: PyTree) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
        """The tree as the transformation sees it, and the way back."""
        return ravel_pytree(tree) if self._override is None else (tree, lambda same: same)

    def _transformation(self, hyper: Hyperparameters) -> optax.GradientTransformation:
        return make_direction(hyper) if self._override is None else self._override


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
