"""Random bad arguments at every public constructor and call: a documented error, or an object.

Only shapes are evaluated, so that sizes of 10^12 cost nothing. The fast run draws few examples;
``FUZZ_EXAMPLES=2000`` draws as many for each test.
"""

import os
import traceback

import jax
import jax.numpy as jnp
import nnx_stateful as ns
import numpy as np
import pytest
from flax import nnx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from nnx_stateful.testing import shipped_modules

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # shrinking evaluates hundreds of shapes more, and tells no more
    suppress_health_check=list(HealthCheck),
)
B, T, F = 2, 3, 3


def dense(size=F):
    return ns.Dense(size, size, nnx.Rngs(0))


# Valid arguments by constructor; each is replaced in turn.
CONSTRUCTORS = {
    "Dense": (ns.Dense, lambda: {"in_features": 3, "out_features": 2, "activation": nnx.relu}),
    "make_mlp": (ns.make_mlp, lambda: {"sizes": [3, 4], "activation": nnx.relu}),
    "LSTM": (
        ns.LSTM,
        lambda: {
            "in_features": 3,
            "hidden_features": 2,
            "gate_fn": nnx.sigmoid,
            "compute_dtype": None,
        },
    ),
    "GRU": (
        ns.GRU,
        lambda: {
            "in_features": 3,
            "hidden_features": 2,
            "activation_fn": nnx.tanh,
            "compute_dtype": None,
        },
    ),
    "LRU": (
        ns.LRU,
        lambda: {
            "in_features": 3,
            "hidden_features": 2,
            "out_features": 2,
            "r_min": 0.1,
            "r_max": 0.9,
            "max_phase": 1.0,
            "compute_dtype": None,
        },
    ),
    "CTRNN": (
        ns.CTRNN,
        lambda: {
            "size": 3,
            "in_features": 2,
            "activation": nnx.tanh,
            "time_constant": 5.0,
            "dt": 1.0,
        },
    ),
    "LeakyIntegrator": (
        ns.LeakyIntegrator,
        lambda: {"size": 3, "time_constant": 5.0, "learnable": True, "dt": 1.0},
    ),
    "LIF": (
        ns.LIF,
        lambda: {
            "size": 3,
            "time_constant": 5.0,
            "learnable": False,
            "dt": 1.0,
            "threshold": 1.0,
            "reset": "soft",
            "detach_reset": True,
            "refractory_steps": 1,
            "surrogate": "sigmoid",
        },
    ),
    "ALIF": (
        ns.ALIF,
        lambda: {
            "size": 3,
            "adaptation_time_constant": 9.0,
            "adaptation_strength": 1.0,
            "threshold": 1.0,
        },
    ),
    "Noise": (ns.Noise, lambda: {"size": 3, "scale": 0.1, "learnable": True}),
    "OrnsteinUhlenbeckNoise": (
        ns.OrnsteinUhlenbeckNoise,
        lambda: {"size": 3, "scale": 0.1, "time_constant": 5.0, "learnable": True, "dt": 1.0},
    ),
    "VariationalBottleneck": (
        ns.VariationalBottleneck,
        lambda: {"latent_size": 2, "kl_weight": 1.0, "min_std": 1e-6},
    ),
    "AR1VariationalBottleneck": (
        ns.AR1VariationalBottleneck,
        lambda: {
            "latent_size": 2,
            "kl_weight": 1.0,
            "min_std": 1e-6,
            "ar1_weight": 1.0,
            "backprop_through_time": True,
        },
    ),
}
WITHOUT_RNGS = {
    "Delay": (ns.Delay, lambda: {"sample_input": jnp.zeros(3), "k_steps": 2, "initial_value": 0.0}),
    "Normalizer": (
        ns.Normalizer,
        lambda: {"shape": {"a": 3, "b": ()}, "clip": 5.0, "epsilon": 1e-6, "initial_std": 10.0},
    ),
    "Surrogate": (ns.Surrogate, lambda: {"name": "sigmoid", "slope": 1.0, "height": 1.0}),
    "Apply": (ns.Apply, lambda: {"fn": jnp.tanh}),
    "Filter": (ns.Filter, lambda: {"spec": {"a": "b", "c": ("d", 0)}}),
    "Flattener": (ns.Flattener, lambda: {"preserve_levels": 1}),
    "Scale": (ns.Scale, lambda: {"factor": 2.0}),
    "Splitter": (ns.Splitter, lambda: {"a": 1, "b": 2}),
    "Sequential": (ns.Sequential, lambda: {"modules": [dense(), dense()]}),
    "Repeat": (ns.Repeat, lambda: {"module": dense(), "n_steps": 2}),
    "Tied": (ns.Tied, lambda: {"module": dense(), "copies": 2}),
    "Map": (ns.Map, lambda: {"a": dense(), "b": dense()}),
    "Parallel": (ns.Parallel, lambda: {"a": dense(), "b": dense()}),
    "Concat": (ns.Concat, lambda: {"a": dense(), "b": dense()}),
    "Merge": (ns.Merge, lambda: {"a": dense(), "b": dense()}),
}
ENTRIES = {**CONSTRUCTORS, **WITHOUT_RNGS}

ODDITIES = {
    "None": None,
    "True": True,
    "numpy bool": np.bool_(True),
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "-1": -1,
    "0": 0,
    "0.0": 0.0,
    "1.5": 1.5,
    "1e308": 1e308,
    "1e39": 1e39,
    "10^12": 10**12,
    "2^70": 2**70,
    "complex": 1j,
    "empty str": "",
    "str": "x",
    "bytes": b"x",
    "empty list": [],
    "list": [1, 2, 3],
    "mixed list": [1, "a", None],
    "ragged list": [[1.0], [1.0, 2.0]],
    "nested list": [[[]]],
    "tuple": (1, -1),
    "empty dict": {},
    "dict": {"a": 1},
    "dict of int keys": {1: 2},
    "deep dict": {"a": {"b": {"c": None}}},
    "set": {1, 2},
    "object": object(),
    "class": ns.Dense,
    "module": ns,
    "array": np.arange(3.0),
    "array of another size": np.ones(7),
    "empty array": np.zeros((0,)),
    "array of no dimension": np.float32(2.0),
    "negative array": -np.ones(3),
    "array of nan": np.full(3, np.nan),
    "array of str": np.array(["a"]),
    "array of objects": np.array([None, 1], dtype=object),
    "wide array": np.ones((2, 3, 4)),
    "jax array": jnp.ones(3),
    "jax scalar": jnp.float32(0.5),
    "jax int": jnp.int32(3),
    "key": jax.random.key(0),
    "function of nothing": lambda: 1,
    "function that fails": lambda *args: {}[args],
    "function that returns a str": lambda *args: "x",
    "layer": dense(),
}


def documented(error):
    """Whether an error is one that the docs promise, with a message of this project."""
    if not isinstance(error, TypeError | ValueError | KeyError):
        return False
    return "expected" in str(error) or "no entry" in str(error) or "no part" in str(error)


def shape_evaluated(build):
    """Runs ``build``; evaluates only the shapes of what it makes."""

    def leaves():
        made = build()
        return jax.tree.leaves(nnx.state(made)) if isinstance(made, nnx.Module) else ()

    return jax.eval_shape(leaves)


def evaluated(call):
    """Evaluates shapes; the result may hold what is no array, passed through."""
    jax.eval_shape(lambda: (call(), 0)[1])


def check(what, act):
    try:
        act()
    except Exception as error:
        if not documented(error):
            trace = "".join(traceback.format_exception(error)[-4:])
            pytest.fail(f"{what}: {type(error).__name__}: {error}\n{trace}", pytrace=False)


@SETTINGS
@given(name=st.sampled_from(sorted(ENTRIES)), data=st.data())
def test_constructor_takes_or_refuses(name, data):
    make, valid = ENTRIES[name]
    arguments = valid()
    changed = data.draw(st.lists(st.sampled_from(sorted(arguments)), min_size=1, max_size=2))
    odd = {key: data.draw(st.sampled_from(sorted(ODDITIES)), label=key) for key in changed}
    arguments |= {key: ODDITIES[value] for key, value in odd.items()}

    def build():
        rngs = {"rngs": nnx.Rngs(0)} if name in CONSTRUCTORS else {}
        return make(**arguments, **rngs)

    check(f"{name}({odd})", lambda: shape_evaluated(build))


CASES = [case for case in shipped_modules() if case.name != "Apply"]
"""All but the one whose errors are those of the user's function."""

INPUTS = {
    key: value
    for key, value in ODDITIES.items()
    if key not in ("class", "module", "layer", "10^12", "2^70")
} | {
    "no rows": jnp.zeros((0, F)),
    "no features": jnp.zeros((B, 0)),
    "one dimension": jnp.zeros(F),
    "one more dimension": jnp.zeros((T, B, F, 1)),
    "another width": jnp.zeros((B, 5)),
    "ints": jnp.zeros((B, F), jnp.int32),
    "bools": jnp.zeros((B, F), bool),
    "complex array": jnp.zeros((B, F), jnp.complex64),
    "dict of arrays": {"left": jnp.zeros((B, F)), "right": jnp.zeros((B, F))},
    "dict of odd arrays": {"left": jnp.zeros(()), "right": "x"},
    "list of arrays": [jnp.zeros((B, F))],
}


@SETTINGS
@given(case=st.sampled_from(CASES), data=st.data())
def test_call_takes_or_refuses(case, data):
    module = MODULES.setdefault(case.name, case.build(nnx.Rngs(0)))
    x = case.sample(B)
    state = ns.initial_state(module, B)
    unrolls = data.draw(st.booleans(), label="unroll")
    if unrolls:
        x = jax.tree.map(lambda leaf: jnp.stack([leaf] * T), x)
    arguments = {"state": state, "x": x, "rollout_extras": None}
    if unrolls:
        arguments["done"] = jnp.zeros((T, B), bool)
    key = data.draw(st.sampled_from(sorted(arguments)))
    odd = data.draw(st.sampled_from(sorted(INPUTS)))
    arguments[key] = INPUTS[odd]

    def act():
        x = arguments.pop("x")
        state, extras = arguments.pop("state"), arguments.pop("rollout_extras")
        if unrolls:
            evaluated(lambda: module.unroll(state, x, arguments["done"], extras))
        else:
            evaluated(lambda: module(state, x, extras))

    check(f"{case.name}, {'unroll' if unrolls else 'call'} with {key} = {odd}", act)


MODULES = {}


@SETTINGS
@given(case=st.sampled_from(shipped_modules()), odd=st.sampled_from(sorted(ODDITIES)))
def test_initial_state_takes_or_refuses(case, odd):
    module = MODULES.setdefault(case.name, case.build(nnx.Rngs(0)))
    size = ODDITIES[odd]
    check(
        f"initial_state({case.name}, {odd})",
        lambda: jax.eval_shape(lambda: ns.initial_state(module, size)),
    )
