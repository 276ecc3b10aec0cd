"""Kinds of action: what an environment says, what a network gives, and where they differ."""

import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train._action_check import check_actions
from nnx_ppo_train._action_kinds import KINDS, ActionSpec, action_specs
from nnx_ppo_train._actions import for_environment
from nnx_stateful import initial_state

B = 3
SIZES = {"continuous": 2, "discrete": 4, "multi-discrete": (2, 3), "binary": 4}

every_kind = pytest.mark.parametrize("kind", KINDS)


def says(size, kind=None):
    """An environment that says so, and steps with anything."""
    said = {"action_size": size, "step": lambda self, state, action: state} | (
        {} if kind is None else {"action_kind": kind}
    )
    return type("Env", (), said)()


def sampled(kind):
    """An action of the sampler that the table names, (B, ...)."""
    spec = ActionSpec(kind, SIZES[kind])
    sampler = spec.make_sampler(nnx.Rngs(0), 0.0)
    assert type(sampler).__name__ == spec.rules.sampler
    return sampler(initial_state(sampler, B), jnp.zeros((B, spec.parameters))).output["action"]


def test_sizes_are_listed_for_every_kind():
    assert set(SIZES) == set(KINDS)


@every_kind
def test_entropy_weight_reaches_the_sampler(kind):
    sampler = ActionSpec(kind, SIZES[kind]).make_sampler(nnx.Rngs(0), 0.125)
    assert sampler.entropy_weight == 0.125


@every_kind
def test_sampler_of_the_table_gives_what_its_kind_wants(kind):
    check_actions(says(SIZES[kind], kind), sampled(kind))
    check_actions(says({"x": SIZES[kind]}, kind), {"x": sampled(kind)})


@pytest.mark.parametrize(("kind", "given"), [*itertools.permutations(KINDS, 2)])
def test_action_of_another_kind_is_refused(kind, given):
    env = says({"a": 1, "b": SIZES[kind]}, {"a": "continuous", "b": kind})
    match = r"Env: action\['b'\]: the environment wants "
    with pytest.raises(ValueError, match=match):
        check_actions(env, {"a": jnp.zeros((B, 1)), "b": sampled(given)})


def test_binary_actions_may_be_bools():
    check_actions(says(2, "binary"), jnp.zeros((B, 2), bool))
    with pytest.raises(ValueError, match=r"wants discrete actions, .*dtype bool; use Categorical"):
        check_actions(says(2, "discrete"), jnp.zeros(B, bool))


@pytest.mark.parametrize(
    ("kind", "action", "match"),
    [
        ("continuous", jnp.zeros((B, 3)), r"2 per row, .*\(3, 3\); .*NormalTanh.* 2 \* 2 = 4$"),
        ("continuous", jnp.zeros(B, int), r"continuous actions, .*int32; use NormalTanhSampler"),
        ("discrete", jnp.zeros((B, 1), int), r"one per row, .*\(3, 1\); .* has width 4$"),
        ("discrete", jnp.zeros(B), r"discrete actions, .*float32; use CategoricalSampler"),
        ("multi-discrete", jnp.zeros((B, 3), int), r"2 per row, .*\(3, 3\); .* has width 5$"),
        ("multi-discrete", jnp.zeros((B, 2)), r"multi-discrete actions, .*float32; use MultiCat"),
        ("binary", jnp.zeros(B, int), r"4 per row, .*\(3,\); .*BernoulliSampler has width 4$"),
        ("binary", jnp.zeros((B, 4)), r"binary actions, .*float32; use BernoulliSampler"),
    ],
)
def test_misfit_is_told_with_what_to_use(kind, action, match):
    with pytest.raises(ValueError, match=rf"^Env: action: the environment wants {match}"):
        check_actions(says(SIZES[kind], kind), action)


def test_other_names_are_refused():
    with pytest.raises(ValueError, match=r"wants actions \['a'\], the network gives \['b'\]; name"):
        check_actions(says({"a": 1}), {"b": jnp.zeros((B, 1))})
    with pytest.raises(ValueError, match=r"wants actions one bare array, .* \['a'\]\['b'\]"):
        check_actions(says((2, 3), "multi-discrete"), {"a": {"b": jnp.zeros((B, 2), int)}})


def test_environment_that_says_nothing_takes_anything():
    check_actions(types.SimpleNamespace(), {"a": jnp.zeros((B, 7))})
    assert action_specs(types.SimpleNamespace(action_kind="discrete")) is None


@pytest.mark.parametrize("sizes", [(2, 3), [2, 3]])
def test_single_entry_is_unwrapped_for_several_bare_choices(sizes):
    action, states = jnp.zeros((B, 2), jnp.int32), jnp.zeros(B)
    assert for_environment(says(sizes, "multi-discrete"), states, {"params": action}) is action


# ---- what an environment says ----------------------------------------------------------------


def test_specs_follow_the_dicts():
    env = says(
        {"gait": np.int64(3), "arm": {"left": 2, "hand": [2, 5]}},
        {"gait": "discrete", "arm": {"left": "continuous", "hand": "multi-discrete"}},
    )
    assert action_specs(env) == {
        "gait": ActionSpec("discrete", 3),
        "arm": {"left": ActionSpec("continuous", 2), "hand": ActionSpec("multi-discrete", (2, 5))},
    }
    assert action_specs(says({"a": 1, "b": 2}, "binary")) == {
        "a": ActionSpec("binary", 1),
        "b": ActionSpec("binary", 2),
    }
    assert action_specs(says(3)) == ActionSpec("continuous", 3)


@pytest.mark.parametrize(
    ("size", "kind", "error", "match"),
    [
        (2, "discret", ValueError, r"action_kind: expected one of 'continuous', .* got 'discret'"),
        (2, 7, ValueError, r"action_kind: expected one of .* got 7"),
        ({"a": 2}, {"a": "box"}, ValueError, r"action_kind\['a'\]: expected one of .* got 'box'"),
        ({"a": 2}, {"b": "binary"}, ValueError, r"action_kind: .* has \['a'\], got \{'b': 'bin"),
        (2, {"a": "binary"}, ValueError, r"action_kind: expected a kind for each .* has 2, got"),
        (0, None, ValueError, r"action_size: expected an int of at least 1, got 0"),
        (2.5, None, TypeError, r"action_size: expected an int for continuous actions, got 2\.5"),
        ((2,), "discrete", TypeError, r"action_size: expected an int for discrete .* got \(2,\)"),
        ({"a": (1,)}, "binary", TypeError, r"action_size\['a'\]: expected an int for binary"),
        (6, "multi-discrete", TypeError, r"action_size: expected a tuple of ints .* got 6"),
        ((), "multi-discrete", TypeError, r"action_size: expected a tuple of ints .* got \(\)"),
        ((2, 0), "multi-discrete", ValueError, r"action_size\[1\]: .* at least 1, got 0"),
        ((2, "3"), "multi-discrete", TypeError, r"action_size\[1\]: expected an int .* got '3'"),
    ],
)
def test_bad_size_or_kind_is_refused(size, kind, error, match):
    with pytest.raises(error, match=rf"^Env\.{match}"):
        action_specs(says(size, kind))


def test_shapes_serve_as_actions():
    spec = jax.ShapeDtypeStruct((B, 2), jnp.float32)
    check_actions(says(2), spec)
