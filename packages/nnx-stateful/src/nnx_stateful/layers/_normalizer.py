"""Normalizer: standardizes inputs by their running mean and variance."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._statistics import counted_steps
from .._validate import check_int, check_number
from ._inputs import match_input
from ._welford import Moments, add_to_count, count_as_float, merge_moments, usable_samples

Shape = Any
"""A shape tree: an int or a tuple of ints is a shape; dicts, lists and other tuples are nodes."""


class NormalizerStatistics(nnx.Variable):
    """A running statistic: neither trained nor written by a call."""


class Normalizer(StatefulModule):
    """Computes ``(x - mean) / std`` per feature, with statistics gathered from rollouts.

    A call only reads the statistics; it emits its input as rollout_extras, and
    :meth:`update_statistics` merges a whole rollout of them at once, but for steps that
    :func:`counting_only` leaves out. Before the first update the
    mean is 0 and the standard deviation ``initial_std``: inputs pass divided by that constant.

    A sample (one row at one step, all leaves of the input together) that holds a number that is not
    finite, or whose magnitude is above 1e15 (1e120 in float64), is left out of the statistics and
    not counted. If a sum overflows all the same, the statistics stay as they were. The output for
    NaN is NaN; everything else is within the range of ``clip`` where that is given.

    Args:
      shape: feature shape (an int or a tuple of ints) of the input, or a tree of them where the
        input is a tree. Any mapping counts as a dict, in the input too; outputs are dicts.
      clip: if given, outputs are clipped to [-clip, clip].
      epsilon: the smallest variance that is divided by.
      initial_std: the standard deviation before the first update.

    Attributes:
      mean: running mean, in the tree of the input.
      M2: running sum of squared deviations from the mean.
      mean_low, M2_low: what ``mean`` and ``M2`` lack for being rounded to one float, so that sums
        over 1e14 samples are still exact to a few digits more than a float has.
      counter: number of samples (batch rows times steps, less those left out) as two uint32 words
        (high, low): exact up to 2**64. See :attr:`sample_count`.

    Raises:
      TypeError: if ``shape`` holds something other than ints, or an option is no number.
      ValueError: if ``shape`` holds no shape or a negative size; if an option is not positive; on
        call, if the input differs from ``shape`` (the message names the path and both shapes).

    Example:
      >>> import jax.numpy as jnp
      >>> norm = Normalizer({"pose": 3})
      >>> xs = {"pose": jnp.arange(24.0).reshape(4, 2, 3)}
      >>> norm.update_statistics(norm.unroll((), xs).rollout_extras)
      >>> norm.sample_count, norm.mean.get_value()["pose"].tolist()
      (8, [10.5, 11.5, 12.5])
    """

    folds_time = True

    def __init__(
        self,
        shape: Shape,
        *,
        clip: float | None = None,
        epsilon: float = 1e-6,
        initial_std: float = 10.0,
    ):
        for name, value in {"clip": clip, "epsilon": epsilon, "initial_std": initial_std}.items():
            if name != "clip" or value is not None:
                check_number("Normalizer", name, value, "positive")
        zeros = _zeros(shape, "shape")
        if not jax.tree.leaves(zeros):
            raise ValueError(
                f"Normalizer: shape: expected at least one shape, got {shape!r}; name the entries "
                "of the input, as in Normalizer({'pose': 3})"
            )
        self.clip = clip
        self.epsilon = epsilon
        self.initial_std = initial_std
        self.mean = NormalizerStatistics(zeros)
        self.mean_low = NormalizerStatistics(_zeros(shape, "shape"))
        self.M2 = NormalizerStatistics(_zeros(shape, "shape"))
        self.M2_low = NormalizerStatistics(_zeros(shape, "shape"))
        self.counter = NormalizerStatistics(jnp.zeros(2, jnp.uint32))

    @property
    def sample_count(self) -> int:
        """The number of samples folded in so far, exactly. Waits for the device."""
        high, low = np.asarray(self.counter[...]).tolist()
        return high * 2**32 + low

    @property
    def std(self) -> PyTree:
        """Running standard deviation, in the tree of the input: what inputs are divided by."""
        return jax.tree.map(self._std, self.mean.get_value(), self.M2.get_value())

    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        mean = self.mean.get_value()
        x = match_input("Normalizer", mean, x)
        output = jax.tree.map(self._standardize, x, mean, self.M2.get_value())
        return StatefulModuleOutput(state, output, 0.0, {}, x)

    def update_statistics(self, rollout_extras: PyTree) -> None:
        sums = (self.mean, self.mean_low, self.M2, self.M2_low)
        count = self.counter[...]
        values = match_input("Normalizer", self.mean.get_value(), rollout_extras, lead=2)
        samples = [
            leaf.reshape((-1, *leaf.shape[2:])).astype(mean.dtype)  # before it is compared: float16
            for leaf, mean in zip(
                *map(jax.tree.leaves, (values, self.mean.get_value())), strict=True
            )
        ]
        mask = counted_steps()
        counted = usable_samples(samples, None if mask is None else mask.reshape(-1).astype(bool))
        old = [jax.tree.leaves(variable.get_value()) for variable in sums]
        new = [
            jax.tree.leaves(merge_moments(count, Moments(*moments), leaf, counted))
            for *moments, leaf in zip(*old, samples, strict=True)
        ]
        # One sum that overflows would leave leaves that have seen other samples than the counter.
        finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(new)]).all()
        treedef = jax.tree.structure(self.mean.get_value())
        for variable, before, after in zip(sums, old, zip(*new, strict=True), strict=True):
            kept = [jnp.where(finite, *pair) for pair in zip(after, before, strict=True)]
            variable.set_value(jax.tree.unflatten(treedef, kept))
        added = jnp.where(finite, counted.sum(dtype=jnp.uint32), 0)
        self.counter.set_value(add_to_count(count, added))

    def _standardize(self, x: Array, mean: Array, m2: Array) -> Array:
        y = (x - mean) / self._std(mean, m2)
        return y if self.clip is None else jnp.clip(y, -self.clip, self.clip)

    def _std(self, mean: Array, m2: Array) -> Array:
        count = count_as_float(self.counter[...], mean.dtype)
        variance = jnp.maximum(m2 / jnp.maximum(count, 1), self.epsilon)
        return jnp.where(count > 0, jnp.sqrt(variance), self.initial_std).astype(mean.dtype)


def _zeros(shape: Shape, path: str) -> PyTree:
    """Makes zeros of every shape in a shape tree."""
    if isinstance(shape, int | np.integer) and not isinstance(shape, bool):
        shape = (int(shape),)
    if isinstance(shape, tuple) and all(isinstance(size, int | np.integer) for size in shape):
        for size in shape:
            check_int("Normalizer", path, size, minimum=0)
        return jnp.zeros(shape, jnp.float32)
    if isinstance(shape, Mapping):
        return {key: _zeros(value, f"{path}[{key!r}]") for key, value in shape.items()}
    if isinstance(shape, list | tuple):
        entries = [_zeros(value, f"{path}[{index}]") for index, value in enumerate(shape)]
        return entries if isinstance(shape, list) else tuple(entries)
    raise TypeError(
        f"Normalizer: {path}: expected an int, a tuple of ints, or a dict, list or tuple of them, "
        f"got {shape!r}"
    )
