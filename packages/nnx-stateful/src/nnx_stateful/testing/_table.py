"""A table of every module shipped: a new module is a new row."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from .._output import PyTree
from .._protocol import StatefulModule
from ..containers import (
    Apply,
    Concat,
    Filter,
    Flattener,
    Map,
    Merge,
    Parallel,
    Repeat,
    Scale,
    Sequential,
    Splitter,
    Tied,
)
from ..layers import (
    ALIF,
    CTRNN,
    GRU,
    LIF,
    LRU,
    LSTM,
    AR1VariationalBottleneck,
    Delay,
    Dense,
    LeakyIntegrator,
    Noise,
    Normalizer,
    OrnsteinUhlenbeckNoise,
    VariationalBottleneck,
    make_mlp,
)

FEATURES = 3
"""Width of the inputs in the table: few shapes, since each compiles."""


@dataclasses.dataclass(frozen=True)
class ModuleCase:
    """One row of the table.

    Attributes:
      name: what the row is called in a test report.
      build: makes the module from a source of initial parameters.
      sample: makes an input batch, leaves (B, ...), whose rows differ.
    """

    name: str
    build: Callable[[nnx.Rngs], StatefulModule]
    sample: Callable[[int], PyTree]


def array_sample(batch_size: int, features: int = FEATURES) -> Float[Array, "B F"]:
    """Returns (B, F) standard normal numbers, always the same."""
    values = np.random.default_rng(batch_size).standard_normal((batch_size, features))
    return jnp.asarray(values, jnp.float32)


def wide_sample(batch_size: int) -> Float[Array, "B doubled"]:
    """Returns an input for the variational layers."""
    return array_sample(batch_size, 2 * FEATURES)


def dict_sample(batch_size: int) -> dict[str, Array]:
    """Returns a dict input whose entries are not in sorted order."""
    values = array_sample(batch_size, 2 * FEATURES)
    return {"right": values[:, :FEATURES], "left": values[:, FEATURES:]}


def tied_sample(batch_size: int) -> Float[Array, "B copies F"]:
    """Returns an input for two copies of a module."""
    return array_sample(batch_size, 2 * FEATURES).reshape((batch_size, 2, FEATURES))


def nested_sample(batch_size: int) -> dict[str, PyTree]:
    """Returns a nested input of different ranks."""
    flat = array_sample(batch_size, 2 * FEATURES)
    return {"skin": {"b": flat[:, 0], "a": flat[:, 1:4]}, "eye": flat.reshape((-1, 2, FEATURES))}


def _dense(rngs: nnx.Rngs) -> Dense:
    return Dense(FEATURES, FEATURES, rngs, activation=nnx.tanh)


def _bfloat16_mlp(rngs: nnx.Rngs) -> Sequential:
    return make_mlp([FEATURES, 4, 2], rngs, compute_dtype="bfloat16")


def _bfloat16_lru(rngs: nnx.Rngs) -> LRU:
    return LRU(FEATURES, 4, rngs, out_features=2, compute_dtype="bfloat16")


def _trainable_lstm(rngs: nnx.Rngs) -> LSTM:
    lstm = LSTM(FEATURES, FEATURES, rngs, trainable_initial_state=True)
    lstm.initial_c[...] = jnp.arange(1.0, FEATURES + 1.0)
    lstm.initial_h[...] = jnp.ones(FEATURES)
    return lstm


def _updated_normalizer(rngs: nnx.Rngs) -> Normalizer:
    norm = Normalizer({"left": FEATURES, "right": FEATURES}, clip=1.5)
    norm.update_statistics({name: leaf[None] for name, leaf in dict_sample(7).items()})
    return norm


def _fresh_delay(rngs: nnx.Rngs) -> Delay:
    row = {"skin": {"b": jnp.zeros(()), "a": jnp.zeros(3)}, "eye": jnp.zeros((2, FEATURES))}
    return Delay(row, k_steps=2, initial_value=-1.0)


def _lif(rngs: nnx.Rngs) -> LIF:
    return LIF(FEATURES, rngs, time_constant=[0.5, 1.0, 2.0], threshold=0.3, learnable=True)


def _alif(rngs: nnx.Rngs) -> ALIF:
    return ALIF(
        FEATURES,
        rngs,
        adaptation_time_constant=4.0,
        adaptation_strength=1.0,
        time_constant=1.0,
        threshold=0.2,
        reset="hard",
        refractory_steps=1,
    )


def _mixed(rngs: nnx.Rngs) -> Sequential:
    """Has statistics, a carry, noise, a loss and metrics."""
    bottleneck = AR1VariationalBottleneck(FEATURES, rngs)
    return Sequential([Normalizer(FEATURES), Dense(FEATURES, 2 * FEATURES, rngs), bottleneck])


def _nested(rngs: nnx.Rngs) -> Sequential:
    """One of everything that goes wrong when routing is written twice."""
    size = FEATURES
    memory = Sequential([LSTM(size, size, rngs), LRU(size, size, rngs)])
    encoder = Sequential([Dense(size, 2 * size, rngs), VariationalBottleneck(size, rngs)])
    return Sequential(
        [
            Normalizer(size),
            Parallel(memory=memory, encoder=encoder),
            Flattener(),
            AR1VariationalBottleneck(size, rngs),
            Delay(jnp.zeros(size), k_steps=3),
        ]
    )


_CASES = (
    ModuleCase("Apply", lambda rngs: Apply(jnp.tanh), array_sample),
    ModuleCase("Filter", lambda rngs: Filter({"a": "right", "b": ("left",)}), dict_sample),
    ModuleCase("Flattener", lambda rngs: Flattener(preserve_levels=1), nested_sample),
    ModuleCase("Scale", lambda rngs: Scale(-0.5), nested_sample),
    ModuleCase("Splitter", lambda rngs: Splitter(b=2, a=1), array_sample),
    ModuleCase("Dense", _dense, array_sample),
    ModuleCase("make_mlp", lambda rngs: make_mlp([FEATURES, 4, 2], rngs), array_sample),
    ModuleCase(
        "Concat", lambda rngs: Concat(right=_dense(rngs), left=GRU(3, 3, rngs)), dict_sample
    ),
    ModuleCase("Map", lambda rngs: Map(right=_dense(rngs), left=GRU(3, 3, rngs)), dict_sample),
    ModuleCase(
        "Merge",
        lambda rngs: Merge(b=Splitter(x=1, y=2), a=Filter({"z": lambda x: x})),
        array_sample,
    ),
    ModuleCase("Parallel", lambda rngs: Parallel(b=LSTM(3, 3, rngs), a=_dense(rngs)), array_sample),
    ModuleCase(
        "Sequential", lambda rngs: Sequential([_dense(rngs), LSTM(3, 3, rngs)]), array_sample
    ),
    ModuleCase("Repeat", lambda rngs: Repeat(_mixed(rngs), n_steps=3), array_sample),
    ModuleCase("Tied", lambda rngs: Tied(_mixed(rngs), copies=2), tied_sample),
    ModuleCase("LSTM", lambda rngs: LSTM(FEATURES, FEATURES, rngs), array_sample),
    ModuleCase("LSTM, trainable initial state", _trainable_lstm, array_sample),
    ModuleCase("GRU", lambda rngs: GRU(FEATURES, FEATURES, rngs), array_sample),
    ModuleCase("LRU", lambda rngs: LRU(FEATURES, 4, rngs, out_features=2), array_sample),
    ModuleCase("make_mlp, bfloat16", _bfloat16_mlp, array_sample),
    ModuleCase(
        "LSTM, bfloat16", lambda rngs: LSTM(3, 3, rngs, compute_dtype="bfloat16"), array_sample
    ),
    ModuleCase(
        "GRU, bfloat16", lambda rngs: GRU(3, 3, rngs, compute_dtype="bfloat16"), array_sample
    ),
    ModuleCase("LRU, bfloat16", _bfloat16_lru, array_sample),
    ModuleCase("Delay", lambda rngs: Delay(jnp.zeros(FEATURES), k_steps=3), array_sample),
    ModuleCase("Delay, nested input", _fresh_delay, nested_sample),
    ModuleCase("Normalizer, before the first update", lambda rngs: Normalizer(3), array_sample),
    ModuleCase("Normalizer", _updated_normalizer, dict_sample),
    ModuleCase(
        "VariationalBottleneck", lambda rngs: VariationalBottleneck(FEATURES, rngs), wide_sample
    ),
    ModuleCase(
        "AR1VariationalBottleneck",
        lambda rngs: AR1VariationalBottleneck(FEATURES, rngs, kl_weight=0.5, ar1_weight=2.0),
        wide_sample,
    ),
    ModuleCase(
        "LeakyIntegrator",
        lambda rngs: LeakyIntegrator(FEATURES, rngs, time_constant=[0.5, 2.0, 8.0]),
        array_sample,
    ),
    ModuleCase(
        "CTRNN", lambda rngs: CTRNN(FEATURES, rngs, time_constant=2.0, learnable=True), array_sample
    ),
    ModuleCase("Noise", lambda rngs: Noise(FEATURES, rngs, learnable=True), array_sample),
    ModuleCase(
        "OrnsteinUhlenbeckNoise",
        lambda rngs: OrnsteinUhlenbeckNoise(FEATURES, rngs, time_constant=2.0),
        array_sample,
    ),
    ModuleCase("LIF", _lif, array_sample),
    ModuleCase("ALIF", _alif, array_sample),
    ModuleCase("nested", _nested, array_sample),
)


def shipped_modules() -> tuple[ModuleCase, ...]:
    """Returns the table of the modules shipped here.

    Example:
      >>> case = next(case for case in shipped_modules() if case.name == "LSTM")
      >>> from flax import nnx
      >>> case.build(nnx.Rngs(0)).unroll is not None, case.sample(2).shape
      (True, (2, 3))
    """
    return _CASES
