"""Presets and kinds of action: samplers that fit, and masks that reach them and nothing else."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import ActionSampler, check_boundary, deterministic, make_env
from nnx_ppo_train.envs import State
from nnx_ppo_train.presets import NetworkOptions, make_network
from nnx_stateful import Normalizer, initial_state
from nnx_stateful.testing import check_stateful_module

B, T = 2, 3
SMALL = NetworkOptions(hidden_size=4)

# gru and lru differ from lstm in the recurrent layer alone
every_wiring = pytest.mark.parametrize("network", ["graph", "lstm", "mlp"])


class Shows:
    """An environment that shows and wants what it is told; nothing ever happens."""

    def __init__(self, obs, action_size, action_kind="continuous"):
        self.obs, self.action_size, self.action_kind = obs, action_size, action_kind

    def reset(self, rng):
        del rng
        return State(self.obs, jnp.zeros(()), jnp.zeros((), bool), {}, {})

    def step(self, state, action):
        del action
        return state


def build(network, env, **options):
    return make_network(network, env, nnx.Rngs(0), dataclasses.replace(SMALL, **options))


def ones(*sizes):
    return jnp.ones(sizes, bool)


BARE = Shows({"eye": jnp.zeros(3), "action_mask": ones(4)}, 4, "discrete")
SWITCHES = Shows({"eye": jnp.zeros(3), "action_mask": jnp.ones(4)}, 4, "binary")
DIALS = Shows({"eye": jnp.zeros(3), "action_mask": ones(5)}, (2, 3), "multi-discrete")
HYBRID = Shows(
    {"eye": jnp.zeros(3), "action_mask": {"gait": ones(4)}},
    {"gait": 4, "arm": 2, "hand": (2, 2)},
    {"gait": "discrete", "arm": "continuous", "hand": "multi-discrete"},
)
PRIVILEGED = Shows(
    {"state": jnp.zeros(3), "privileged_state": jnp.zeros(2), "action_mask": ones(4)},
    4,
    "discrete",
)
MASKED = {
    "bare": BARE,
    "switches": SWITCHES,
    "dials": DIALS,
    "hybrid": HYBRID,
    "privileged": PRIVILEGED,
}
OTHERS = {
    "hybrid": make_env("hybrid-choice"),
    "dials": make_env("multi-choice"),
    "switches": Shows(jnp.zeros(3), {"a": 2, "b": 3}, "binary"),
}


@every_wiring
@pytest.mark.parametrize("env", [*MASKED.values(), *OTHERS.values()], ids=[*MASKED, *OTHERS])
def test_every_network_fits_every_kind_of_action(network, env):
    check_boundary(env, build(network, env), B, combine_advantages=False)


@pytest.mark.fast("mlp")
@every_wiring
def test_network_with_masks_keeps_the_laws(network):
    random = np.random.default_rng(0)
    mask = random.random((3, 4)) < 0.5
    mask[:, 0] = True
    obs = {
        "eye": random.normal(size=(3, 3)).astype(np.float32),
        "action_mask": {"gait": mask},
    }
    check_stateful_module(build(network, HYBRID), obs, steps=3, laws=[5, 6])


def unroll(network, obs):
    run = jax.jit(lambda obs: network.unroll(initial_state(network, B), obs))
    return run(obs)


def observations(env, steps=T, seed=0):
    """Random features, and masks that allow everything, (T, B, ...)."""
    random = np.random.default_rng(seed)

    def leaf(shape, mask):
        lead = (steps, B, *shape)
        return np.ones(lead, bool) if mask else random.normal(size=lead).astype(np.float32)

    return {
        key: jax.tree.map(lambda entry, key=key: leaf(entry.shape, key == "action_mask"), part)
        for key, part in env.obs.items()
    }


@pytest.mark.fast("graph")
@every_wiring
def test_mask_rules_out_choices_step_by_step(network):
    """At step t of row b only the choice (t + b) mod 4 is allowed."""
    obs = observations(BARE, steps=6)
    wanted = (np.arange(6)[:, None] + np.arange(B)) % 4
    obs["action_mask"] = np.arange(4) == wanted[..., None]
    out = unroll(build(network, BARE), obs)
    np.testing.assert_array_equal(jax.tree.leaves(out.output.actions)[0], wanted)
    np.testing.assert_array_equal(jax.tree.leaves(out.output.loglikelihoods)[0], np.zeros((6, B)))


@pytest.mark.fast("graph")
@every_wiring
def test_mask_of_one_action_leaves_the_others_alone(network):
    net, obs = build(network, HYBRID), observations(HYBRID, steps=8)
    free = unroll(net, obs).output
    obs["action_mask"] = {"gait": np.tile(np.arange(4) == 3, (8, B, 1))}
    masked = unroll(net, obs).output
    assert (np.asarray(masked.actions["gait"]) == 3).all()
    assert not (np.asarray(free.actions["gait"]) == 3).all()
    for name in ("arm", "hand"):
        np.testing.assert_array_equal(masked.actions[name], free.actions[name])


@pytest.mark.fast("hybrid-*")
@every_wiring
@pytest.mark.parametrize("env", MASKED.values(), ids=MASKED)
def test_mask_is_no_feature(network, env):
    """Neither values nor unmasked logits depend on it: the likeliest of two stays what it is."""
    net = deterministic(build(network, env))
    obs = observations(env)
    other = {**obs, "action_mask": jax.tree.map(lambda m: m.copy(), obs["action_mask"])}
    for mask in jax.tree.leaves(other["action_mask"]):
        mask[..., 0] = False
    first, second = unroll(net, obs), unroll(net, other)
    jax.tree.map(
        np.testing.assert_array_equal,
        first.output.value_estimates,
        second.output.value_estimates,
    )
    before, after = jax.tree.leaves(first.metrics), jax.tree.leaves(second.metrics)
    assert any(not np.array_equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.fast("graph")
@every_wiring
def test_mask_is_not_normalized(network):
    net, obs = build(network, BARE), observations(BARE)
    (normalizer,) = [m for _, m in nnx.iter_modules(net) if isinstance(m, Normalizer)]
    net.update_statistics(unroll(net, obs).rollout_extras)
    assert set(normalizer.mean.get_value()) == {"eye"}
    assert normalizer.sample_count == T * B


@pytest.mark.fast("graph")
@every_wiring
def test_features_still_reach_actor_and_critic(network):
    net = deterministic(build(network, PRIVILEGED))
    obs = observations(PRIVILEGED)
    base = unroll(net, obs)
    for key, port in (("state", "actions"), ("privileged_state", "value_estimates")):
        changed = unroll(net, {**obs, key: obs[key] + 1.0})
        for field in ("actions", "value_estimates"):
            entropy_or_value = _numbers(base, field), _numbers(changed, field)
            assert np.array_equal(*entropy_or_value) == (field != port)


def _numbers(out, field):
    """Values; or in place of actions, which may happen to stay, the entropy of their choice."""
    if field == "value_estimates":
        return np.asarray(jax.tree.leaves(out.output.value_estimates)[0])
    found = [
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(out.metrics)
        if jax.tree_util.keystr(path).endswith("['entropy']")
    ]
    return np.asarray(found[0])


@every_wiring
def test_entropy_weight_reaches_every_kind_of_sampler(network):
    net = build(network, HYBRID, entropy_weight=0.125)
    samplers = [m for _, m in nnx.iter_modules(net) if isinstance(m, ActionSampler)]
    assert [sampler.entropy_weight for sampler in samplers] == [0.125] * 3


# ---- what does not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "match"),
    [
        (
            Shows({"eye": jnp.zeros(3), "action_mask": ones(3)}, 4, "discrete"),
            r"obs\['action_mask'\]: expected shape \(4,\), .* action of size 4, got \(3,\)",
        ),
        (
            Shows({"eye": jnp.zeros(3), "action_mask": ones(2)}, (2, 3), "multi-discrete"),
            r"expected shape \(5,\), one entry per choice of the multi-discrete .* \(2, 3\), got",
        ),
        (
            Shows({"eye": jnp.zeros(3), "action_mask": ones(2)}, 2),
            "expected a mask for a discrete action, got one for a continuous action",
        ),
        (
            Shows({"eye": jnp.zeros(3), "action_mask": {"gait": ones(4)}}, 4, "discrete"),
            r"obs\['action_mask'\]\['gait'\]: .* wants one bare action; give one array",
        ),
        (
            Shows({"eye": jnp.zeros(3), "action_mask": ones(4)}, {"gait": 4}, "discrete"),
            r"obs\['action_mask'\]: .* wants actions \['gait'\]; give one array for a bare",
        ),
        (
            Shows({"action_mask": ones(4)}, 4, "discrete"),
            "expected an observation with something beside 'action_mask', got that alone",
        ),
        (
            Shows(jnp.zeros(3), {"arm": {"left": 2}}),
            r"Shows\.action_size: expected a flat dict of actions, got dicts for \['arm'\]",
        ),
        (Shows(jnp.zeros(3), 2, "box"), r"Shows\.action_kind: expected one of"),
    ],
)
def test_mask_or_action_that_does_not_fit_is_refused(env, match):
    with pytest.raises(ValueError, match=match):
        build("mlp", env)


def test_mask_cannot_be_chosen_as_an_observation():
    with pytest.raises(ValueError, match=r"actor_obs: expected a key .* has \['eye'\]; got 'actio"):
        build("mlp", BARE, actor_obs="action_mask")
