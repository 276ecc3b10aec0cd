"""Presets: every network in every environment, who sees what, and options that are checked."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.extend.core import jaxprs_in_params
from nnx_graph import PopulationGraph
from nnx_ppo_train import check_boundary, deterministic
from nnx_ppo_train.envs import CartPole, Recall, State, list_envs, make_env
from nnx_ppo_train.presets import (
    NetworkOptions,
    find_graph,
    list_networks,
    make_mlp_actor_critic,
    make_network,
)
from nnx_stateful import Dense, Normalizer, initial_state

B, T = 2, 3
SMALL = NetworkOptions(hidden_size=4)
ENVS = {name: make_env(name) for name in list_envs()}

# gru and lru differ from lstm in the recurrent layer alone
every_wiring = pytest.mark.parametrize("network", ["graph", "lstm", "mlp"])
every_network = pytest.mark.parametrize("network", list_networks())


def build(network, env, **options):
    return make_network(network, env, nnx.Rngs(0), dataclasses.replace(SMALL, **options))


class Shows:
    """An environment with any observation, action size and reward; nothing ever happens."""

    def __init__(self, obs, action_size=2, reward=None):
        self.obs, self.action_size = obs, action_size
        self.reward = jnp.zeros(()) if reward is None else reward

    def reset(self, rng):
        del rng
        return State(self.obs, self.reward, jnp.zeros((), bool), {}, {})

    def step(self, state, action):
        sizes = jax.tree.map(lambda size: (size,), self.action_size)
        assert jax.tree.map(jnp.shape, action) == sizes
        return state


@pytest.mark.fast("*-mlp", "recall-*")
@every_wiring
@pytest.mark.parametrize("env", ENVS)
def test_every_wiring_fits_every_environment(network, env):
    check_boundary(ENVS[env], build(network, ENVS[env]), B, combine_advantages=False)


@every_network
def test_every_network_fits_an_environment(network):
    check_boundary(ENVS["cartpole"], build(network, ENVS["cartpole"]), B, combine_advantages=False)


@every_wiring
@pytest.mark.parametrize(
    "env",
    [
        Shows(jnp.zeros(())),
        Shows({"eye": jnp.zeros((2, 3)), "skin": {"left": jnp.zeros(2), "right": jnp.zeros(())}}),
        Shows({"count": jnp.zeros(3, jnp.int32)}, action_size={"hip": 1, "knee": 2}),
        Shows(jnp.zeros(3), np.int64(2), {"speed": jnp.zeros(()), "energy": jnp.zeros(())}),
        Shows((jnp.zeros(3), jnp.zeros(2))),
    ],
    ids=["scalar", "nested", "ints, dict action", "numpy size, two rewards", "tuple"],
)
def test_every_wiring_fits_other_observations(network, env):
    check_boundary(env, build(network, env), B, combine_advantages=True)


# ---- who sees what ---------------------------------------------------------------------------

PRIVILEGED = {"state": jnp.zeros(3), "privileged_state": jnp.zeros(2)}
OTHER = {"eye": jnp.zeros(3), "truth": jnp.zeros(2)}


def reactions(network, keys):
    """Whether (actions, values) change with each entry of the observation, over T steps."""
    network = deterministic(network)
    random = np.random.default_rng(0)
    xs = {key: jnp.asarray(random.normal(size=(T, B, size)), "float32") for key, size in keys}

    @jax.jit
    def run(xs):
        out = network.unroll(initial_state(network, B), xs).output
        return out.actions, out.value_estimates

    def changes(key):
        pairs = zip(run(xs), run({**xs, key: xs[key] + 1.0}), strict=True)
        return tuple(
            not all(jax.tree.leaves(jax.tree.map(np.array_equal, *pair))) for pair in pairs
        )

    return {key: changes(key) for key, _ in keys}


def keys_of(obs):
    return [(key, leaf.shape[0]) for key, leaf in obs.items()]


@every_wiring
def test_privileged_state_reaches_the_critic_alone(network):
    found = reactions(build(network, Shows(PRIVILEGED)), keys_of(PRIVILEGED))
    assert found == {"state": (True, False), "privileged_state": (False, True)}


@every_wiring
@pytest.mark.parametrize(
    ("options", "eye", "truth"),
    [
        ({}, (True, True), (True, True)),
        ({"actor_obs": "eye"}, (True, True), (False, True)),
        ({"actor_obs": "eye", "critic_obs": "truth"}, (True, False), (False, True)),
        ({"actor_obs": "eye", "critic_obs": "eye"}, (True, True), (False, False)),
    ],
)
def test_actor_and_critic_see_what_they_are_given(network, options, eye, truth):
    found = reactions(build(network, Shows(OTHER), **options), keys_of(OTHER))
    assert found == {"eye": eye, "truth": truth}


@every_wiring
def test_explicit_parts_win_over_privileged_state(network):
    net = build(network, Shows(PRIVILEGED), actor_obs="privileged_state")
    assert reactions(net, keys_of(PRIVILEGED))["privileged_state"] == (True, True)


@every_network
@pytest.mark.parametrize("name", ["actor_obs", "critic_obs"])
def test_unknown_part_is_refused(network, name):
    match = rf"NetworkOptions\.{name}: expected a key .* has \['eye', 'truth'\]; got 'nose'"
    with pytest.raises(ValueError, match=match):
        build(network, Shows(OTHER), **{name: "nose"})
    with pytest.raises(ValueError, match="which has none, it is a bare array; got 'nose'"):
        build(network, Shows(jnp.zeros(3)), **{name: "nose"})


# ---- options ---------------------------------------------------------------------------------

AT_LEAST_ONE = [
    (0, ValueError, "of at least 1, got 0; the nearest legal value is 1"),
    (-2, ValueError, "the nearest legal value is 1"),
    (1.5, TypeError, "expected a whole number"),
    (None, TypeError, "expected a whole number"),
]
PART = [(3, TypeError, "expected str or None, such as 'state', got 3")]
BAD = {
    "hidden_size": AT_LEAST_ONE,
    "hidden_layers": [
        (-1, ValueError, "of at least 0, got -1; the nearest legal value is 0"),
        (True, TypeError, "expected a whole number"),
    ],
    "delay": AT_LEAST_ONE,
    "entropy_weight": [
        (-0.1, ValueError, "at least 0.0, got -0.1; the nearest legal value is 0.0"),
        (math.nan, ValueError, "got nan"),
        ("0", TypeError, "expected a number"),
    ],
    "normalize_obs": [(1, TypeError, "expected True or False, got 1")],
    "share": [(1, TypeError, "expected True or False, got 1")],
    "actor_obs": PART,
    "critic_obs": PART,
    "compute_dtype": [
        ("float16", ValueError, "expected one of None, 'bfloat16', got 'float16'"),
        (jnp.dtype("bfloat16"), TypeError, "expected str or None, such as 'bfloat16', got dtype"),
    ],
}


def test_bad_options_are_listed_for_every_field():
    assert set(BAD) == {field.name for field in dataclasses.fields(NetworkOptions)}


@pytest.mark.parametrize(
    ("field", "value", "error", "match"),
    [(field, *case) for field, cases in BAD.items() for case in cases],
)
def test_bad_option_is_refused(field, value, error, match):
    with pytest.raises(error, match=rf"^NetworkOptions\.{field}: .*{match}"):
        NetworkOptions(**{field: value})


def widths(network):
    return {m.out_features for _, m in nnx.iter_modules(network) if isinstance(m, Dense)}


@every_network
def test_normalizer_is_there_when_asked_for(network):
    for wanted in (True, False):
        modules = nnx.iter_modules(build(network, ENVS["recall"], normalize_obs=wanted))
        assert any(isinstance(module, Normalizer) for _, module in modules) == wanted


@every_network
def test_entropy_weight_reaches_every_sampler(network):
    net = build(network, ENVS["body-chain"], entropy_weight=0.125)
    weights = [getattr(module, "entropy_weight", None) for _, module in nnx.iter_modules(net)]
    assert [weight for weight in weights if weight is not None] == [0.125] * 3


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_mlp_has_as_many_hidden_layers_as_asked_for(layers):
    net = build("mlp", ENVS["cartpole"], hidden_layers=layers)
    check_boundary(ENVS["cartpole"], net, B, combine_advantages=False)
    dense = [module for _, module in nnx.iter_modules(net) if isinstance(module, Dense)]
    assert len(dense) == 2 * (layers + 1)


def test_delay_reaches_the_graph():
    """What is shown at the first step is seen at once, and again `delay` steps later."""
    xs = jnp.zeros((5, B, 5)).at[0].set(1.0)
    for delay in (1, 3):
        net = deterministic(build("graph", ENVS["recall"], delay=delay, normalize_obs=False))
        run = jax.jit(lambda xs, net=net: net.unroll(initial_state(net, B), xs).output)
        value, baseline = (run(x).value_estimates["value"][:, 0] for x in (xs, 0 * xs))
        assert np.flatnonzero(value != baseline)[:2].tolist() == [0, delay]


def operand_types(function, *arguments):
    """Types of the operands of all matrix products in a function."""

    def find(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                yield from (str(operand.aval.dtype) for operand in equation.invars)
            for inner in jaxprs_in_params(equation.params):
                yield from find(inner)

    return set(find(jax.make_jaxpr(function)(*arguments).jaxpr))


@pytest.mark.parametrize("network", ["graph", "mlp", "lstm", "gru", "lru"])
def test_compute_dtype_reaches_every_product(network):
    def types(compute_dtype):
        net = build(network, ENVS["recall"], compute_dtype=compute_dtype)
        graphdef, params, others = nnx.split(net, nnx.Param, ...)
        state, xs = initial_state(net, B), jnp.ones((T, B, 5))

        def loss(params):
            out = nnx.merge(graphdef, params, others).unroll(state, xs).output
            return sum(
                leaf.sum() for leaf in jax.tree.leaves((out.value_estimates, out.loglikelihoods))
            )

        return operand_types(jax.grad(loss), params)

    assert types("bfloat16") == {"bfloat16"}
    assert types(None) == {"float32"}


# ---- names -----------------------------------------------------------------------------------


def test_unknown_network_names_the_nearest():
    with pytest.raises(ValueError, match=r"no network is called 'lstn'\. Did you mean 'lstm'"):
        make_network("lstn", CartPole(), nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"'xyz'\. Expected one of graph, mlp, lstm, gru, lru"):
        make_network("xyz", CartPole(), nnx.Rngs(0))


def test_list_describes_every_network():
    assert set(list_networks()) == {"graph", "gru", "lru", "lstm", "mlp"}
    assert all(list_networks().values())


@every_network
def test_environment_without_action_size_is_refused(network):
    env = Shows(jnp.zeros(3))
    del env.action_size
    with pytest.raises(ValueError, match=r"Shows: a preset needs the attribute action_size"):
        build(network, env)


def test_find_graph_finds_it_or_nothing():
    assert isinstance(find_graph(build("graph", ENVS["recall"])), PopulationGraph)
    assert find_graph(build("mlp", ENVS["recall"])) is None


# ---- make_mlp_actor_critic -------------------------------------------------------------------


def test_mlp_actor_critic_has_the_sizes_asked_for():
    net = make_mlp_actor_critic(
        3, 2, nnx.Rngs(0), actor_hidden_sizes=(5, 6), critic_hidden_sizes=(7,), activation="tanh"
    )
    assert widths(net) == {5, 6, 4, 7, 1}
    check_boundary(Shows(jnp.zeros(3)), net, B, combine_advantages=False)
    activations = [m.activation for _, m in nnx.iter_modules(net) if isinstance(m, Dense)]
    assert sorted(a is nnx.tanh for a in activations) == [False] * 2 + [True] * 3


def test_mlp_actor_critic_passes_options_on():
    net = make_mlp_actor_critic(
        3,
        2,
        nnx.Rngs(0),
        normalize_obs=False,
        entropy_weight=0.5,
        min_std=0.25,
        std_scale=2.0,
        activation=jnp.sin,
    )
    (sampler,) = [m for _, m in nnx.iter_modules(net) if hasattr(m, "entropy_weight")]
    assert (sampler.entropy_weight, sampler.min_std, sampler.std_scale) == (0.5, 0.25, 2.0)
    assert not any(isinstance(m, Normalizer) for _, m in nnx.iter_modules(net))


def test_mlp_actor_critic_scales_its_initial_weights():
    def spread(scale):
        net = make_mlp_actor_critic(50, 2, nnx.Rngs(0), initializer_scale=scale)
        layers = [m for _, m in nnx.iter_modules(net) if isinstance(m, Dense)]
        return next(m for m in layers if m.in_features == 50).kernel[...].std()

    np.testing.assert_allclose(spread(4.0) / spread(1.0), 2.0, rtol=1e-5)


def test_unknown_activation_is_refused():
    with pytest.raises(ValueError, match=r"one of \['relu', 'swish', 'tanh'\] or a function, got"):
        make_mlp_actor_critic(3, 2, nnx.Rngs(0), activation="gelu")


def test_recall_gets_a_categorical_sampler_of_its_symbols():
    env = Recall(n_symbols=7)
    assert 7 in widths(build("mlp", env))
