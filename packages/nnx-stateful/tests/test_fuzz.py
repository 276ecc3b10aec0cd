"""Random bad arguments at every public constructor and call: a documented error, or an object.

Only shapes are evaluated, so that sizes of 10^12 cost nothing.
"""

import functools
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

pytestmark = pytest.mark.usefixtures("whole_tracebacks")

AT_ONCE = 50  # values in one example of Hypothesis, of which each takes its time
MANY = settings(
    max_examples=2_000 // AT_ONCE,
    phases=[Phase.generate],  # to shrink that many values takes minutes
    suppress_health_check=list(HealthCheck),
)
FEW = settings(max_examples=100, derandomize=True)
B, T, F = 2, 3, 3


DENSE = [ns.Dense(F, F, nnx.Rngs(seed)) for seed in range(2)]


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
    "Sequential": (ns.Sequential, lambda: {"modules": DENSE}),
    "Repeat": (ns.Repeat, lambda: {"module": DENSE[0], "n_steps": 2}),
    "Tied": (ns.Tied, lambda: {"module": DENSE[0], "copies": 2}),
    "Map": (ns.Map, lambda: {"a": DENSE[0], "b": DENSE[1]}),
    "Parallel": (ns.Parallel, lambda: {"a": DENSE[0], "b": DENSE[1]}),
    "Concat": (ns.Concat, lambda: {"a": DENSE[0], "b": DENSE[1]}),
    "Merge": (ns.Merge, lambda: {"a": DENSE[0], "b": DENSE[1]}),
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
    "layer": DENSE[0],
}


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
CASES = {case.name: case for case in shipped_modules()}
CALLED = sorted(CASES.keys() - {"Apply"})
"""All but the one whose errors are those of the user's function."""


def documented(error):
    """Whether an error is one that the docs promise, with a message of this project."""
    if not isinstance(error, TypeError | ValueError | KeyError):
        return False
    return "expected" in str(error) or "no entry" in str(error) or "no part" in str(error)


@functools.cache
def module(name):
    return CASES[name].build(nnx.Rngs(0))


def construct(name, odd):
    make, valid = ENTRIES[name]
    given = valid() | {key: ODDITIES[value] for key, value in odd.items()}

    def leaves():
        made = make(**given, **({"rngs": nnx.Rngs(0)} if name in CONSTRUCTORS else {}))
        return jax.tree.leaves(nnx.state(made)) if isinstance(made, nnx.Module) else ()

    jax.eval_shape(leaves)  # flax is slow where much has been traced already


@functools.cache
def inputs(name):
    """Valid arguments of a call."""
    return {"state": ns.initial_state(module(name), B), "x": CASES[name].sample(B), "extras": None}


@functools.cache
def sequences(name):
    """Valid arguments of ``unroll``."""
    x = jax.tree.map(lambda leaf: jnp.stack([leaf] * T), CASES[name].sample(B))
    return {**inputs(name), "x": x, "done": jnp.zeros((T, B), bool)}


@functools.cache
def sizes(name):
    """A valid argument of ``initial_state``."""
    return {"batch_size": len(jax.tree.leaves(inputs(name)["x"])[0])}


def call(name, odd):
    given = inputs(name) | {key: INPUTS[value] for key, value in odd.items()}
    module(name)(given["state"], given["x"], given["extras"])


def unroll(name, odd):
    given = sequences(name) | {key: INPUTS[value] for key, value in odd.items()}
    module(name).unroll(given["state"], given["x"], given["done"], given["extras"])


def initialize(name, odd):
    ns.initial_state(module(name), ODDITIES[odd["batch_size"]])


def changes(names, values):
    """Strategy of one or two arguments to replace, by the name of what takes their place."""
    one = st.tuples(st.sampled_from(sorted(names)), st.sampled_from(sorted(values)))
    return st.tuples(one) | st.tuples(one, one)


POINTS = (
    {(construct, name): (ENTRIES[name][1], ODDITIES) for name in sorted(ENTRIES)}
    | {(call, name): (functools.partial(inputs, name), INPUTS) for name in CALLED}
    | {(unroll, name): (functools.partial(sequences, name), INPUTS) for name in CALLED}
    | {(initialize, name): (functools.partial(sizes, name), ODDITIES) for name in sorted(CASES)}
)
"""Names of arguments and what may replace them, by what is called, and of which class."""
THROWN = set()


def undocumented(act, name, many):
    """Calls with one choice of arguments after the other; returns errors that no page promises."""
    fresh = [odd for odd in map(dict, many) if (act, name, *sorted(odd.items())) not in THROWN]
    failed = []

    def each():
        for odd in fresh:
            try:
                act(name, odd)
            except Exception as error:
                if not documented(error):
                    trace = "".join(traceback.format_exception(error)[-4:])
                    failed.append(f"{act.__name__} {name} with {odd!a}: {error!a}\n{trace}")

    jax.eval_shape(each)
    if not failed:
        THROWN.update((act, name, *sorted(odd.items())) for odd in fresh)
    return failed


@FEW
@given(point=st.sampled_from(list(POINTS)), data=st.data())
def test_bad_value_is_taken_or_refused(point, data):
    names, values = POINTS[point]
    failed = undocumented(*point, [data.draw(changes(names(), values))])
    assert not failed, failed[0]


@pytest.mark.slow
@pytest.mark.skipif("NNX_FUZZ" not in os.environ, reason="set NNX_FUZZ=1 for thousands of examples")
@pytest.mark.parametrize(("act", "name"), POINTS, ids=lambda part: getattr(part, "__name__", part))
def test_many_bad_values_are_taken_or_refused(act, name):
    names, values = POINTS[act, name]

    @MANY
    @given(many=st.lists(changes(names(), values), min_size=AT_ONCE, max_size=AT_ONCE))
    def run(many):
        failed = undocumented(act, name, many)
        assert not failed, failed[0]

    run()
