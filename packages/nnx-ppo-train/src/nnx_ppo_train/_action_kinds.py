"""The kinds of action that environments may want, and what each asks of a network."""

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from nnx_stateful import PyTree

from .samplers import (
    ActionSampler,
    BernoulliSampler,
    CategoricalSampler,
    MultiCategoricalSampler,
    NormalTanhSampler,
)


@dataclasses.dataclass(frozen=True)
class ActionKind:
    """One row of the table.

    Attributes:
      shape: from the size to the shape of an action, without the batch axis.
      parameters: from the size to the width of the distribution parameters.
      make_sampler: ``make_sampler(size, rngs, entropy_weight)``, the sampler of presets.
      sampler: its name, for messages.
      dtypes: classes of dtypes that an action may have.
      several: whether the size is a tuple of numbers, one for each choice.
    """

    shape: Callable[[Any], tuple[int, ...]]
    parameters: Callable[[Any], int]
    make_sampler: Callable[[Any, nnx.Rngs, float], ActionSampler]
    sampler: str
    dtypes: tuple[Any, ...] = (jnp.integer,)
    several: bool = False


KINDS: dict[str, ActionKind] = {
    "continuous": ActionKind(
        shape=lambda size: (size,),
        parameters=lambda size: 2 * size,
        make_sampler=lambda size, rngs, weight: NormalTanhSampler(rngs, weight),
        sampler="NormalTanhSampler",
        dtypes=(jnp.floating,),
    ),
    "discrete": ActionKind(
        shape=lambda size: (),
        parameters=lambda size: size,
        make_sampler=lambda size, rngs, weight: CategoricalSampler(rngs, weight),
        sampler="CategoricalSampler",
    ),
    "multi-discrete": ActionKind(
        shape=lambda sizes: (len(sizes),),
        parameters=sum,
        make_sampler=MultiCategoricalSampler,
        sampler="MultiCategoricalSampler",
        several=True,
    ),
    "binary": ActionKind(
        shape=lambda size: (size,),
        parameters=lambda size: size,
        make_sampler=lambda size, rngs, weight: BernoulliSampler(rngs, weight),
        sampler="BernoulliSampler",
        dtypes=(jnp.integer, jnp.bool_),
    ),
}
"""A new kind of action is a sampler and a row here."""


@dataclasses.dataclass(frozen=True)
class ActionSpec:
    """One action that an environment wants.

    Attributes:
      kind: a name in ``KINDS``.
      size: number of components (continuous, binary) or of alternatives (discrete); a tuple of
        numbers of alternatives (multi-discrete).
    """

    kind: str
    size: int | tuple[int, ...]

    @property
    def rules(self) -> ActionKind:
        """The row of the table."""
        return KINDS[self.kind]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an action, without the batch axis."""
        return self.rules.shape(self.size)

    @property
    def parameters(self) -> int:
        """Width of the distribution parameters."""
        return self.rules.parameters(self.size)

    def make_sampler(self, rngs: nnx.Rngs, entropy_weight: float) -> ActionSampler:
        """Returns a sampler of such actions."""
        return self.rules.make_sampler(self.size, rngs, entropy_weight)


def action_specs(env: Any) -> PyTree:
    """Reads ``action_size`` and ``action_kind`` off an environment.

    Returns:
      An ActionSpec, or a dict of them, nested like ``action_size``; None if the environment does
      not say its ``action_size``.

    Raises:
      TypeError: if a size is no number, or not of the form that its kind wants, or a name no str.
      ValueError: if a size is below 1, a kind is unknown, or the dicts have different names.
    """
    size = getattr(env, "action_size", None)
    if size is None:
        return None
    return _specs(size, getattr(env, "action_kind", "continuous"), type(env).__name__, "")


def _specs(size: Any, kind: Any, env: str, path: str) -> PyTree:
    if isinstance(kind, Mapping):
        names = sorted(map(str, size)) if isinstance(size, Mapping) else repr(size)
        if not isinstance(size, Mapping) or set(size) != set(kind):
            raise ValueError(
                f"{env}.action_kind{path}: expected a kind for each entry of action_size, which "
                f"has {names}, got {dict(kind)}; give a dict with the same names, or one kind for "
                "all"
            )
    if isinstance(size, Mapping):
        if not all(isinstance(name, str) for name in size):
            raise TypeError(
                f"{env}.action_size{path}: expected names that are str, got {list(size)!r}"
            )
        return {
            name: _specs(
                part, kind[name] if isinstance(kind, Mapping) else kind, env, f"{path}[{name!r}]"
            )
            for name, part in size.items()
        }
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(
            f"{env}.action_kind{path}: expected one of {', '.join(map(repr, KINDS))}, got {kind!r}"
        )
    where = f"{env}.action_size{path}"
    if not KINDS[kind].several:
        return ActionSpec(kind, _positive(size, where, kind))
    if not isinstance(size, tuple | list) or not size:
        raise TypeError(
            f"{where}: expected a tuple of ints for {kind} actions, the number of alternatives of "
            f"each choice, got {size!r}"
        )
    return ActionSpec(
        kind, tuple(_positive(part, f"{where}[{i}]", kind) for i, part in enumerate(size))
    )


def _positive(size: Any, where: str, kind: str) -> int:
    try:
        number = operator.index(size)
    except TypeError as error:
        raise TypeError(f"{where}: expected an int for {kind} actions, got {size!r}") from error
    if number < 1:
        raise ValueError(f"{where}: expected an int of at least 1, got {number}")
    return number
