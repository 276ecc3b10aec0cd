"""The table of samplers that tests run over: a new sampler is a row here."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import nnx
from nnx_ppo_train import (
    ActionSampler,
    BernoulliSampler,
    BetaSampler,
    CategoricalSampler,
    MultiCategoricalSampler,
    NormalSampler,
    NormalTanhSampler,
)


@dataclasses.dataclass(frozen=True)
class Row:
    """A sampler with what is known about it.

    Attributes:
        build: Makes it from rngs and options.
        width: Features of its parameters.
        mode: From parameters (numpy, masked entries at -inf) to what ``eval()`` gives.
        discrete: Whether its actions are integers.
        masked: Whether it is tried with masks.
    """

    build: Callable[..., ActionSampler]
    width: int
    mode: Callable[[np.ndarray], np.ndarray]
    discrete: bool = False
    masked: bool = False

    def inputs(self, *lead: int, seed: int = 0) -> Any:
        """Random parameters, and a mask that allows the first choice and some others."""
        random = np.random.default_rng(seed)
        params = random.normal(size=(*lead, self.width)).astype(np.float32)
        if not self.masked:
            return params
        mask = np.random.default_rng(100).random(size=(*lead, self.width)) < 0.5
        mask[..., [0, 2]] = True
        return {"params": params, "mask": mask}

    def expected_mode(self, inputs: Any) -> np.ndarray:
        """The mode for an input."""
        if self.masked:
            return self.mode(np.where(inputs["mask"], inputs["params"], -np.inf))
        return self.mode(inputs)


def _first_half(params):
    return params[..., : params.shape[-1] // 2]


def _softplus(x):
    return np.logaddexp(0.0, np.asarray(x, float))


def _mean_of_beta(params):
    alpha, beta = np.split(1.0 + _softplus(params), 2, axis=-1)
    return 2.0 * alpha / (alpha + beta) - 1.0


def _argmax(params):
    return np.argmax(params, axis=-1)


def _argmaxes(params):
    return np.stack([_argmax(params[..., :2]), _argmax(params[..., 2:])], axis=-1)


def _positive(params):
    return params > 0


def _multi(rngs, **options):
    return MultiCategoricalSampler((2, 3), rngs, **options)


quadrature = functools.partial(NormalTanhSampler, entropy="quadrature")
free_tanh = functools.partial(NormalTanhSampler, state_independent_std=3, initial_std=0.5)

SAMPLERS = {
    "normal": Row(NormalSampler, 4, _first_half),
    "tanh": Row(NormalTanhSampler, 4, lambda params: np.tanh(_first_half(params))),
    "tanh, quadrature": Row(quadrature, 4, lambda params: np.tanh(_first_half(params))),
    "tanh, free std": Row(free_tanh, 3, np.tanh),
    "beta": Row(BetaSampler, 4, _mean_of_beta),
    "categorical": Row(CategoricalSampler, 4, _argmax, discrete=True),
    "categorical, masked": Row(CategoricalSampler, 4, _argmax, discrete=True, masked=True),
    "multi": Row(_multi, 5, _argmaxes, discrete=True),
    "multi, masked": Row(_multi, 5, _argmaxes, discrete=True, masked=True),
    "bernoulli": Row(BernoulliSampler, 4, _positive, discrete=True),
    "bernoulli, masked": Row(BernoulliSampler, 4, _positive, discrete=True, masked=True),
}


@functools.cache
def compiled(build: Callable[..., ActionSampler], **options: Any) -> Callable[..., Any]:
    """A compiled step of a sampler from its initial state: (inputs, extras) -> output."""
    sampler = build(nnx.Rngs(0), **options)

    @jax.jit
    def step(inputs, extras=None):
        rows = jax.tree.leaves(inputs)[0].shape[0]
        return sampler(sampler.initialize_state(rows), inputs, extras)

    return step
