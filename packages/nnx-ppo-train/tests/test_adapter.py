"""The adapter between heads and PPO: trees, trailing axes, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import CategoricalSampler, NormalTanhSampler, PPOAdapter
from nnx_stateful import Apply, Dense, Filter, Map, Parallel, Sequential, initial_state
from nnx_stateful.testing import RowLossProbe, check_stateful_module

F = 4


def stepped(network, *lead, features=F):
    """Shapes of the output of a step, lead (B,), or of a sequence, lead (T, B)."""
    xs = jax.ShapeDtypeStruct((*lead, features), jnp.float32)

    def run(xs):
        act = network if len(lead) == 1 else network.unroll
        return act(initial_state(network, lead[-1]), xs).output

    return jax.eval_shape(run, xs)


def shapes(tree):
    return jax.tree.map(lambda leaf: leaf.shape, tree, is_leaf=lambda leaf: hasattr(leaf, "shape"))


def value_of(*shape):
    """A value port whose output has these trailing axes, whatever its input."""
    return Apply(lambda x: jnp.zeros((*x.shape[:-1], *shape)))


def adapter(value=None, action=None):
    return PPOAdapter(
        action=NormalTanhSampler(nnx.Rngs(0)) if action is None else action,
        value=value_of(1) if value is None else value,
    )


@pytest.mark.parametrize("lead", [(3,), (1,), (2, 3), (1, 3), (2, 1), (1, 1)])
@pytest.mark.parametrize("trailing", [(), (1,)])
def test_one_sampler_and_one_value_give_bare_arrays(lead, trailing):
    out = stepped(adapter(value_of(*trailing)), *lead)
    assert shapes(out.actions) == (*lead, 2)
    assert shapes(out.loglikelihoods) == lead
    assert shapes(out.value_estimates) == lead


@pytest.mark.parametrize("lead", [(1,), (2, 3)])
def test_trees_of_samplers_and_values_keep_their_structure(lead):
    rngs = nnx.Rngs(0)
    arms = Parallel(left=NormalTanhSampler(rngs), right=NormalTanhSampler(rngs))
    action = Parallel(arms=arms, gait=CategoricalSampler(rngs))
    value = Parallel(speed=Dense(F, 1, rngs), energy=value_of())
    out = stepped(adapter(value, action), *lead)
    wide = (*lead, 2)
    assert shapes(out.actions) == {"arms": {"left": wide, "right": wide}, "gait": lead}
    assert shapes(out.loglikelihoods) == {"arms": {"left": lead, "right": lead}, "gait": lead}
    assert shapes(out.value_estimates) == {"speed": lead, "energy": lead}


def test_single_entries_stay_dicts():
    action = Sequential([Filter({"x": lambda x: x}), Map(x=NormalTanhSampler(nnx.Rngs(0)))])
    value = Filter({"value": lambda x: x[..., :1]})
    out = stepped(adapter(value, action), 3)
    assert shapes(out.actions) == {"x": (3, 2)}
    assert shapes(out.value_estimates) == {"value": (3,)}


def test_further_entries_of_a_sampler_are_dropped():
    action = Filter(
        {"action": lambda x: x, "log_likelihood": lambda x: x[..., 0], "more": lambda x: x}
    )
    out = stepped(adapter(action=action), 3)
    assert shapes(out.actions) == (3, F)
    assert shapes(out.loglikelihoods) == (3,)


def test_ports_run_on_the_same_input_and_give_their_numbers():
    rngs = nnx.Rngs(0)
    sampler, critic = NormalTanhSampler(rngs, entropy_weight=0.5), Dense(F, 1, rngs)
    network = PPOAdapter(action=sampler, value=critic)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, F)), jnp.float32)
    out = network(initial_state(network, 3), x)
    alone = sampler(initial_state(sampler, 3), x)
    np.testing.assert_array_equal(out.output.actions, alone.output["action"])
    np.testing.assert_array_equal(out.output.loglikelihoods, alone.output["log_likelihood"])
    np.testing.assert_array_equal(out.output.value_estimates, critic((), x).output[:, 0])
    np.testing.assert_allclose(out.regularization_loss, alone.regularization_loss, rtol=1e-6)
    assert set(out.metrics) == set(out.rollout_extras) == {"action", "value"}
    assert network.action is sampler
    assert network.value is critic


def test_losses_of_both_ports_add_up():
    rngs = nnx.Rngs(0)
    value = Sequential([RowLossProbe(), Dense(F, 1, rngs)])
    network = adapter(value, NormalTanhSampler(rngs))
    out = network(initial_state(network, 3), jnp.full((3, F), 2.0))
    np.testing.assert_allclose(out.regularization_loss, [4.0, 4.0, 4.0], rtol=1e-6)


def test_adapter_routes_like_a_container():
    rngs = nnx.Rngs(0)
    network = adapter(Dense(3, 1, rngs), Sequential([Dense(3, 2, rngs), NormalTanhSampler(rngs)]))
    sample = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)), jnp.float32)
    check_stateful_module(network, sample, steps=3, laws=[5, 6])


# ---- bad ports -------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(3,), (1,), (2, 3), (1, 1)])
@pytest.mark.parametrize("trailing", [(2,), (1, 1), (0,)])
def test_value_that_is_no_number_per_row_is_refused(lead, trailing):
    with pytest.raises(ValueError, match=r"PPOAdapter: value: expected one value per row, \(.*got"):
        stepped(adapter(value_of(*trailing)), *lead)


def test_value_without_rows_is_refused():
    with pytest.raises(ValueError, match=r"one value per row, \(3,\) or \(3, 1\), got \(\)"):
        stepped(adapter(Apply(jnp.sum)), 3)


def test_bad_value_in_a_tree_is_named():
    value = Parallel(speed=value_of(1), energy=value_of(5))
    with pytest.raises(ValueError, match=r"value\['energy'\]: .* got \(3, 5\); end the value port"):
        stepped(adapter(value), 3)


@pytest.mark.parametrize(
    "action",
    [
        Apply(lambda x: x),
        Filter({"action": lambda x: x}),
        Apply(lambda x: ()),
    ],
    ids=["array", "no likelihood", "nothing"],
)
def test_action_port_without_sampler_is_refused(action):
    with pytest.raises(TypeError, match="expected the action port to return sampler outputs"):
        stepped(adapter(action=action), 3)


def test_action_port_with_one_sampler_missing_is_refused():
    action = Parallel(left=NormalTanhSampler(nnx.Rngs(0)), right=Apply(lambda x: x))
    with pytest.raises(TypeError, match=r"'right': \(3, 4\).*end it with a sampler"):
        stepped(adapter(action=action), 3)


@pytest.mark.parametrize("port", ["action", "value"])
def test_port_that_is_no_module_is_refused(port):
    with pytest.raises(TypeError, match=f"PPOAdapter: child '{port}': expected a StatefulModule"):
        adapter(**{port: jnp.tanh})
