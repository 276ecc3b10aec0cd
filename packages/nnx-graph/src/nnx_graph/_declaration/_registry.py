"""Names of activations and modules, under which a graph is declared, written down and read back."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import (
    ALIF,
    CTRNN,
    GRU,
    LIF,
    LRU,
    LSTM,
    Dense,
    LeakyIntegrator,
    Noise,
    OrnsteinUhlenbeckNoise,
    StatefulModule,
)

from ._aggregation import REDUCTIONS, AttentionPooling, GatedSum, MakeAggregation
from ._hints import shown, shown_as_str, which_name
from ._spec import Activation, Named

Place = Literal["compute", "transform"]
"""A population's own module, or that of a connection."""

MakeModule = Callable[..., StatefulModule]
"""Called as ``make(in_features, out_features, rngs=rngs, **options)``; returns a new module.

The features are those of source and destination, for a compute those of its population twice.
"""


def register_activation(name: str, function: Activation) -> None:
    """Lets a function be called by a name: in declarations, and where graphs are written down.

    Register it before a graph with that name is read, for example where the function is defined. A
    function may have several names; it is written under the first.

    Args:
      name: new, or already that of this function.
      function: a pure function of the sum (B, size), of the same shape.

    Raises:
      TypeError: if the name is no str, or the function none, or one that cannot be hashed.
      ValueError: if the name is empty, or that of another function.

    Example:
      >>> import jax.numpy as jnp
      >>> register_activation("cosine", jnp.cos)
      >>> activation_called("cosine", "here") is jnp.cos
      True
    """
    _check_new("register_activation", name, function, _ACTIVATIONS)
    check_hashable(f"register_activation: {shown(name)}", function)
    _ACTIVATIONS[name] = function
    _ACTIVATION_NAMES.setdefault(function, name)


def register_module(name: str, make: MakeModule) -> None:
    """Lets modules of a kind be called by a name, as a transform or a compute.

    Args:
      name: new, or already that of ``make``.
      make: a class or function that is called as ``make(in_features, out_features, rngs=rngs,
        **options)`` for every place of the graph that has the name, with the options of its
        :class:`Named` record.

    Raises:
      TypeError: if the name is no str, or ``make`` no function.
      ValueError: if the name is empty, or that of another function.

    Example:
      >>> from nnx_stateful import LRU
      >>> register_module("recurrent", LRU)
      >>> make_module(Named("recurrent", r_max=0.9), "transform", 3, 2, nnx.Rngs(0)).out_features
      2
    """
    _check_new("register_module", name, make, _MODULES)
    _MODULES[name] = make


def register_aggregation(name: str, make: MakeAggregation) -> None:
    """Lets aggregations of a kind be called by a name.

    Args:
      name: new, or already that of ``make``.
      make: a class or function that is called as ``make(n_messages, size, rngs=rngs, **options)``
        for every population with the name, with the options of its :class:`Named` record. The
        module maps messages (B, n_messages, size), in the order in which the connections were
        declared, to (B, size).

    Raises:
      TypeError: if the name is no str, or ``make`` no function.
      ValueError: if the name is empty, or that of another function.
    """
    _check_new("register_aggregation", name, make, {**_AGGREGATIONS, **REDUCTIONS, "sum": None})
    _AGGREGATIONS[name] = make


def aggregation_called(given: Any, where: str) -> Named | None:
    """Returns the aggregation that a name or record stands for; None for the sum.

    Raises:
      ValueError: if there is none of the name, or it has options and takes none.
      TypeError: if it is neither.
    """
    if not (given is None or isinstance(given, str | Named)):
        raise TypeError(
            f"{where}: expected the name of an aggregation, or a Named record of name and options, "
            f"got {shown(given)} of type {type(given).__name__}; add others with "
            "register_aggregation"
        )
    named = Named("sum") if given is None else Named(given) if isinstance(given, str) else given
    names = ("sum", *REDUCTIONS, *_AGGREGATIONS)
    if named.name not in names:
        raise ValueError(
            f"{where}: expected the name of an aggregation, got {shown(named.name)}; "
            f"{which_name(named.name, names)}; add others with register_aggregation"
        )
    if named.options and named.name not in _AGGREGATIONS:
        raise ValueError(
            f"{where}: expected no options, got {shown(named)}; {named.name} takes none"
        )
    return None if named.name == "sum" else named


def make_aggregation(named: Named, n_messages: int, size: int, rngs: nnx.Rngs) -> StatefulModule:
    """Makes a registered aggregation that has a module."""
    options: dict[str, Any] = dict(named.options)
    return _AGGREGATIONS[named.name](n_messages, size, rngs=rngs, **options)


def activation_called(name: str, where: str) -> Activation | None:
    """Returns the activation of a name; None for the identity.

    Raises:
      ValueError: if no activation has the name; ``where`` is its place.
    """
    if name not in _ACTIVATIONS:
        raise ValueError(
            f"{where}: expected the name of an activation, got {shown(name)}; "
            f"{which_name(name, _ACTIVATIONS)}; add others with register_activation"
        )
    return _ACTIVATIONS[name]


def name_of_activation(activation: Any) -> str | None:
    """Returns the name under which an activation is written; None if it has none."""
    try:
        return _ACTIVATION_NAMES.get(activation)
    except TypeError:  # not hashable
        return None


def check_hashable(where: str, function: Any) -> None:
    """Raises TypeError unless a function can be looked up, and compared with others."""
    try:
        hash(function)
    except TypeError:
        raise TypeError(
            f"{where}: expected a function that can be hashed, got an instance of "
            f"{type(function).__name__}; give the class a __hash__, as a frozen dataclass has"
        ) from None


def check_module_name(name: str, where: str) -> None:
    """Raises ValueError unless modules are registered under the name."""
    if name not in _MODULES:
        raise ValueError(
            f"{where}: expected the name of a module, got {shown(name)}; "
            f"{which_name(name, _MODULES)}; add others with register_module"
        )


def names_of_class(class_name: str) -> list[str]:
    """Returns the names under which modules of a class are registered.

    Example:
      >>> names_of_class("GRU")
      ['gru']
    """
    return [name for name, make in _MODULES.items() if _class_name(make) == class_name]


def _class_name(make: Any) -> str:
    """The name of a class or function, or of what it makes if it is a wrapper of ours."""
    return getattr(make, "__name__", type(make).__name__)


def make_module(
    named: Named, place: Place, in_features: int, out_features: int, rngs: nnx.Rngs
) -> StatefulModule:
    """Makes a registered module for its place.

    Args:
      named: name and options.
      place: what it is for.
      in_features: width of its input.
      out_features: width of its output.
      rngs: source of the initial weights.
    """
    options: dict[str, Any] = dict(named.options)
    if place == "transform" and named.name in _WEIGHING:
        options = {"in_features": in_features, **options}
    return _MODULES[named.name](in_features, out_features, rngs=rngs, **options)


def _check_new(method: str, name: Any, value: Any, known: dict[str, Any]) -> None:
    if not isinstance(name, str):
        raise TypeError(
            f"{method}: expected a name of type str, got {shown(name)} of type "
            f"{type(name).__name__}; use {shown_as_str(name)}"
        )
    if not name:
        raise ValueError(f"{method}: expected a name of at least one character, got ''; name it")
    if not callable(value) or isinstance(value, nnx.Module):
        raise TypeError(
            f"{method}: {shown(name)}: expected a function or class, got an instance of "
            f"{type(value).__name__}; pass what can be called anew in each graph"
        )
    if name in known and known[name] is not value:
        raise ValueError(
            f"{method}: expected a new name, got {shown(name)}, which is that of "
            f"{_class_name(known[name])}; choose another, or declare by that name"
        )


def _calling(make: MakeModule, *functions: str) -> MakeModule:
    """Lets options that are functions be given by the names of activations."""

    def made(in_features: int, out_features: int, /, **options: Any) -> StatefulModule:
        for option in functions:
            if isinstance(options.get(option), str):
                options[option] = activation_called(options[option], option)
        return make(in_features, out_features, **options)

    made.__name__ = _class_name(make)
    return made


def _of_one_size(make: MakeModule) -> MakeModule:
    """Makes layers that have as many inputs as outputs, unless they weigh their inputs."""

    def made(width: int, out_features: int, /, *, rngs: nnx.Rngs, **options: Any) -> StatefulModule:
        if width != out_features and "in_features" not in options:
            raise ValueError(
                f"{_class_name(make)}: expected as many inputs as outputs, got "
                f"{width} and {out_features}; use it as the compute of a population"
            )
        return make(out_features, rngs, **options)

    made.__name__ = _class_name(make)
    return made


_ACTIVATIONS: dict[str, Activation | None] = {
    "identity": None,
    "celu": jax.nn.celu,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "hard_swish": jax.nn.hard_swish,
    "hard_tanh": jax.nn.hard_tanh,
    "leaky_relu": jax.nn.leaky_relu,
    "log_sigmoid": jax.nn.log_sigmoid,
    "mish": jax.nn.mish,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "soft_sign": jax.nn.soft_sign,
    "softmax": jax.nn.softmax,
    "softplus": jax.nn.softplus,
    "swish": jax.nn.swish,
    "silu": jax.nn.silu,  # swish by its other name
    "tanh": jax.nn.tanh,
}


def _names_of_functions() -> dict[Any, str]:
    """The first name of each function, those included that are other objects in Flax."""
    names: dict[Any, str] = {}
    for name, function in _ACTIVATIONS.items():
        names.setdefault(function, name)
        names.setdefault(getattr(jax.nn, name), name)
        names.setdefault(getattr(nnx, name, function), name)
    return names | {jnp.tanh: "tanh"}


_ACTIVATION_NAMES = _names_of_functions()

_MODULES: dict[str, MakeModule] = {
    "alif": _of_one_size(ALIF),
    "ctrnn": _calling(_of_one_size(CTRNN), "activation"),
    "dense": _calling(Dense, "activation"),
    "gru": _calling(GRU, "gate_fn", "activation_fn"),
    "leaky_integrator": _of_one_size(LeakyIntegrator),
    "lif": _of_one_size(LIF),
    "lru": LRU,
    "lstm": _calling(LSTM, "gate_fn", "activation_fn"),
    "noise": _of_one_size(Noise),
    "ornstein_uhlenbeck_noise": _of_one_size(OrnsteinUhlenbeckNoise),
}

_AGGREGATIONS: dict[str, MakeAggregation] = {"attention": AttentionPooling, "gated": GatedSum}

_WEIGHING = ("ctrnn",)
"""Modules that weigh the input of a connection, and take the sum of a population as it is."""
