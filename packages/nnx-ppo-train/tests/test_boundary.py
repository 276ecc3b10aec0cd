"""Network and environment must fit; where they do not, the error says where and what to do."""

import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    CategoricalSampler,
    EpisodeWrapper,
    NormalTanhSampler,
    PPOAdapter,
    check_boundary,
    check_env,
)
from nnx_ppo_train._actions import for_environment
from nnx_ppo_train.envs import BodyChain, ConstantReward, Recall, State
from nnx_stateful import (
    Apply,
    Dense,
    Filter,
    Flattener,
    Map,
    Parallel,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
)
from nnx_stateful.testing import CounterProbe

B, OBS, ACTION = 3, 4, 2


class Plain:
    """An environment that says nothing about itself; its parts can be replaced."""

    def __init__(self, **reset):
        self.parts = reset

    def reset(self, rng):
        del rng
        fields = {
            "obs": jnp.zeros(OBS),
            "reward": jnp.zeros(()),
            "done": jnp.zeros((), bool),
            "info": {},
            "metrics": {},
        }
        return State(**(fields | self.parts))

    def step(self, state, action):
        if jnp.shape(action) != (ACTION,):
            raise ValueError(f"Plain wants an action of shape ({ACTION},), got {action}")
        return state


class Sized(Plain):
    action_size = ACTION


def sampler(width=2 * ACTION, features=OBS, kind=NormalTanhSampler):
    rngs = nnx.Rngs(0)
    return Sequential([Dense(features, width, rngs), kind(rngs)])


def value(features=OBS):
    return Dense(features, 1, nnx.Rngs(1))


def network(action=None, critic=None):
    return PPOAdapter(
        action=sampler() if action is None else action,
        value=value() if critic is None else critic,
    )


def check(env=None, net=None, combine=False):
    check_boundary(Plain() if env is None else env, network() if net is None else net, B, combine)


def bodies(ports):
    """A network for BodyChain(n_bodies=2), with the ports' modules by name."""
    return Sequential([Flattener(), PPOAdapter(*ports)])


def chain_action(**names):
    return Parallel({name: sampler(features=6, **options) for name, options in names.items()})


def chain_value(*names):
    return Parallel({name: value(6) for name in names})


# ---- what fits -------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [Plain(), Sized(), EpisodeWrapper(Sized(), 3)])
def test_bare_arrays_pass(env):
    check(env)


@pytest.mark.parametrize("env", [Plain(), Sized(), ConstantReward()])
def test_single_entries_pass(env):
    """The network of a graph names its one action and its one value."""
    width = 2 * getattr(env, "action_size", ACTION)
    features = jax.eval_shape(env.reset, jax.random.key(0)).obs.shape[0]
    action = Sequential([Filter({"params": lambda x: x}), Map(params=sampler(width, features))])
    critic = Sequential([Filter({"value": lambda x: x}), Map(value=value(features))])
    check(env, network(action, critic))


def test_single_reward_entry_pairs_with_a_bare_value():
    check(Plain(reward={"speed": jnp.zeros(())}))


def test_trees_of_the_same_names_pass():
    names = ("body_0", "body_1")
    ports = chain_action(**{name: {"width": 2} for name in names}), chain_value(*names)
    check(BodyChain(n_bodies=2), bodies(ports))


def test_discrete_actions_pass():
    check(Recall(), network(sampler(4, 5, CategoricalSampler), value(5)))


def test_sizes_that_are_numpy_ints_count():
    env = Plain()
    env.action_size = np.int64(3)
    with pytest.raises(ValueError, match=r"wants 3 per row, the network gives shape \(3, 2\)"):
        check(env)


def test_combined_advantages_train_other_actions():
    reward = {"speed": jnp.zeros(()), "energy": jnp.zeros(())}
    critic = Parallel(speed=value(), energy=value())
    check(Plain(reward=reward), network(critic=critic), combine=True)
    with pytest.raises(ValueError, match=r"\['energy'\], \['speed'\].*combine_advantages=True"):
        check(Plain(reward=reward), network(critic=critic))


def test_action_dict_stays_for_an_environment_that_takes_one():
    action = {"x": jnp.zeros((B, ACTION))}

    class TakesDict(Plain):
        def step(self, state, action):
            return super().step(state, action["x"])

    for env in (TakesDict(), types.SimpleNamespace(action_size={"x": ACTION})):
        states = jax.vmap(TakesDict().reset)(jax.random.split(jax.random.key(0), B))
        assert for_environment(env, states, action) is action


def test_several_actions_stay_a_dict():
    action = {"x": jnp.zeros((B, 1)), "y": jnp.zeros((B, 1))}
    assert for_environment(Sized(), None, action) is action


# ---- what is no environment, or not a single one ---------------------------------------------


@pytest.mark.parametrize("method", ["reset", "step"])
def test_missing_method_is_named(method):
    methods = {"reset": Plain().reset, "step": Plain().step}
    del methods[method]
    with pytest.raises(TypeError, match=f"SimpleNamespace: expected an environment .*{method};"):
        check_env(types.SimpleNamespace(**methods))


def test_missing_fields_of_the_state_are_named():
    class Gym(Plain):
        def reset(self, rng):
            return types.SimpleNamespace(obs=jnp.zeros(OBS), done=jnp.zeros(()), info={})

    class Tupled(Plain):
        def reset(self, rng):
            return jnp.zeros(OBS), {}

    with pytest.raises(TypeError, match=r"Tupled.reset: .*got tuple without obs, reward, done"):
        check_env(Tupled())
    with pytest.raises(TypeError, match=r"Gym\.reset: expected"):
        check_env(Gym())


class Vectorised(Plain):
    """Hands out B states at once, for one key."""

    def reset(self, rng):
        return jax.vmap(super().reset)(jax.random.split(rng, B))


class VectorisedKeys(Plain):
    """Wants B keys."""

    def reset(self, rng):
        return jax.vmap(super().reset)(rng)


def test_vectorised_environment_is_refused():
    with pytest.raises(TypeError, match=r"with done bool\[3\]: it is vectorized already; pass"):
        check(Vectorised())


def test_environment_that_wants_many_keys_is_refused():
    with pytest.raises(TypeError, match=r"VectorisedKeys\.reset: .* reset with one key.*If it is"):
        check(VectorisedKeys())


@pytest.mark.parametrize(
    "entry", ["first_obs", "first_state", "first_pipeline_state", "AutoResetWrapper_first_obs"]
)
def test_self_reset_is_seen_in_the_state(entry):
    with pytest.raises(TypeError, match=rf"got one that resets itself \({entry}\)"):
        check(Plain(info={entry: jnp.zeros(OBS), "steps": jnp.zeros(())}))


class AutoResetWrapper(Plain):
    pass


class Outer(Plain):
    def __init__(self, attribute, inner):
        super().__init__()
        setattr(self, attribute, inner)


@pytest.mark.parametrize(
    "env",
    [
        AutoResetWrapper(),
        Outer("env", AutoResetWrapper()),
        Outer("_env", Outer("env", AutoResetWrapper())),
        EpisodeWrapper(AutoResetWrapper(), 3),
    ],
)
def test_self_reset_is_seen_in_the_wrappers(env):
    with pytest.raises(TypeError, match=r"resets itself \(AutoResetWrapper\): the last observat"):
        check_env(env)


class ResetsInStep(Plain):
    def step(self, state, action):
        stepped, fresh = super().step(state, action), self.reset(jax.random.key(0))
        return stepped.replace(obs=jnp.where(stepped.done, fresh.obs, stepped.obs))


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: EpisodeWrapper(env, 3)])
def test_self_reset_is_seen_in_the_step(wrap):
    env = ResetsInStep()
    with pytest.raises(TypeError, match=r"resets itself \(its step calls ResetsInStep\.reset\)"):
        check(wrap(env))
    assert "reset" not in vars(env)


class Slow(Plain):
    def step(self, state, action):
        threading.Event().wait(0.02)  # so that the checks of all threads overlap
        return super().step(state, action)


def test_threads_may_share_an_environment():
    env, errors = EpisodeWrapper(Slow(), 3), []
    barrier = threading.Barrier(6)

    def run():
        barrier.wait()
        try:
            check(env, network())
        except TypeError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert "reset" not in {**vars(env), **vars(env.env)}


@pytest.mark.parametrize("inner", ["CartPole", 3, ("a", "b")])
def test_attribute_env_may_be_anything(inner):
    check_env(Outer("env", inner))


def test_wrappers_in_a_circle_end():
    env = Outer("env", None)
    env.env = env
    check_env(env)


# ---- networks --------------------------------------------------------------------------------


def test_network_that_is_no_stateful_module_is_refused():
    with pytest.raises(TypeError, match="expected a network that is a StatefulModule, got Linear"):
        check(net=nnx.Linear(OBS, 2, rngs=nnx.Rngs(0)))


def test_network_without_adapter_is_refused():
    with pytest.raises(TypeError, match="a PPONetworkOutput, got dict; end it with a PPOAdapter"):
        check(net=sampler())


def test_observation_of_another_width_is_named():
    env = Plain(obs=jnp.zeros(7))
    with pytest.raises(
        ValueError, match=r"observation: Dense: expected an input with 4 .*\[3, 7\]"
    ):
        check(env)


def test_observation_without_the_key_is_named():
    action = Sequential([Filter({"x": "vision"}), Map(x=sampler())])
    env = Plain(obs={"pose": jnp.zeros(OBS)})
    with pytest.raises(
        ValueError, match=r"no part \('vision',\); found \['pose'\].*gives .*'pose'"
    ):
        check(env, network(action))


def test_action_port_without_sampler_stays_a_type_error():
    with pytest.raises(TypeError, match="expected the action port to return sampler outputs"):
        check(net=network(action=value()))


def test_likelihood_that_is_not_one_per_row_is_refused():
    class Unsummed(StatefulModule):
        def __call__(self, state, x, rollout_extras=None):
            out = {"action": x[:, :ACTION], "log_likelihood": jnp.zeros((B, 1))}
            return StatefulModuleOutput(state, out, 0.0, {})

    critic = Apply(lambda x: x[:, :1])
    with pytest.raises(ValueError, match=r"log-likelihood: expected one number .* got \(3, 1\)"):
        check(net=network(Unsummed(), critic))


def test_write_in_a_call_is_reported_as_such():
    class Counting(StatefulModule):
        def __init__(self):
            self.calls = nnx.Variable(jnp.zeros(()))

        def __call__(self, state, x, rollout_extras=None):
            self.calls[...] += 1
            return StatefulModuleOutput(state, x, 0.0, {})

    with pytest.raises(RuntimeError, match=r"Counting .* wrote its variable 'calls' in __call__"):
        check(net=Sequential([Counting(), network()]))


class Growing(CounterProbe):
    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x)
        return out.replace(next_state=out.next_state.astype(float))


class ResetSeesRows(CounterProbe):
    def reset_state(self, prev_state):
        return jnp.zeros((B,), jnp.int32)


def test_carry_that_changes_its_type_is_refused():
    match = r"Sequential\.__call__: expected shape \(3,\) and dtype int32 at state\['0'\], got"
    with pytest.raises(ValueError, match=match):
        check(net=Sequential([Growing(), network()]))


def test_reset_that_expects_the_batch_is_refused():
    with pytest.raises(ValueError, match=r"reset_state: expected shape \(\).*sees one row"):
        check(net=Sequential([ResetSeesRows(), network()]))


# ---- actions ---------------------------------------------------------------------------------


def test_action_of_another_width_is_named_with_the_width_to_use():
    with pytest.raises(ValueError, match=r"Sized: action: .* wants 2 per row.*width 2 \* 2 = 4"):
        check(Sized(), network(sampler(width=6)))


def test_action_of_another_width_is_reported_in_the_words_of_the_environment():
    match = r"Plain.step failed .*float32\[3, 3\].*Plain wants an action of"
    with pytest.raises(ValueError, match=match):
        check(Plain(), network(sampler(width=6)))


def test_bad_action_in_a_tree_is_named():
    names = ("body_0", "body_1")
    ports = chain_action(body_0={"width": 2}, body_1={"width": 4}), chain_value(*names)
    with pytest.raises(ValueError, match=r"BodyChain: action\['body_1'\]: the environment wants 1"):
        check(BodyChain(n_bodies=2), bodies(ports))


@pytest.mark.parametrize(
    ("names", "given"), [(("body_0",), r"\['body_0'\]"), (("body_0", "hip"), r".*\['hip'\]")]
)
def test_actions_of_other_names_are_refused(names, given):
    ports = chain_action(**{name: {"width": 2} for name in names}), chain_value("body_0", "body_1")
    match = rf"wants actions \['body_0'\], \['body_1'\], the network gives {given}; name the samp"
    with pytest.raises(ValueError, match=match):
        check(BodyChain(n_bodies=2), bodies(ports))


def test_several_actions_for_a_bare_array_are_refused():
    action = Parallel(left=sampler(), right=sampler())
    match = r"wants actions one bare array, the network gives \['left'\], \['right'\]"
    with pytest.raises(ValueError, match=match):
        check(Sized(), network(action))


def test_nested_actions_for_flat_names_are_refused():
    nested = Parallel(body_0=chain_action(left={"width": 2}), body_1=sampler(2, 6))
    with pytest.raises(ValueError, match=r"the network gives \['body_0'\]\['left'\]"):
        check(BodyChain(n_bodies=2), bodies((nested, chain_value("body_0", "body_1"))))


def test_continuous_actions_for_a_discrete_environment_are_refused():
    with pytest.raises(
        ValueError, match=r"wants discrete .* dtype float32; use CategoricalSampler"
    ):
        check(Recall(), network(sampler(8, 5), value(5)))


def test_discrete_actions_for_a_continuous_environment_are_refused():
    with pytest.raises(ValueError, match=r"wants continuous .* int32; use NormalTanhSampler"):
        check(Sized(), network(sampler(kind=CategoricalSampler)))


# ---- rewards, values, states -----------------------------------------------------------------


def test_values_of_other_names_are_refused():
    names = ("body_0", "body_1")
    action = chain_action(**{name: {"width": 2} for name in names})
    match = r"rewards \['body_0'\], \['body_1'\], the network values \['body_0'\], \['hip'\]; give"
    with pytest.raises(ValueError, match=match):
        check(BodyChain(n_bodies=2), bodies((action, chain_value("body_0", "hip"))))


def test_bare_value_for_several_rewards_is_refused():
    reward = {"speed": jnp.zeros(()), "energy": jnp.zeros(())}
    with pytest.raises(ValueError, match=r"do not match: .* the network values one bare array"):
        check(Plain(reward=reward), combine=True)


def test_reward_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match=r"reward\['speed'\]: expected one number .*got \(3, 2\)"):
        check(Plain(reward={"speed": jnp.zeros(2)}))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"done": jnp.zeros(())}, r"Drifting\.step: .* dtype bool at state\.done, got .* float32"),
        ({"obs": jnp.zeros(OBS + 1)}, r"expected shape \(3, 4\) .* at state\.obs, got \(3, 5\)"),
        ({"reward": jnp.zeros((), jnp.int32)}, r"at state\.reward, got \(3,\) and int32; an envi"),
        ({"info": {"truncated": jnp.zeros((), bool)}}, r"Drifting\.step: .* of structure"),
        ({"metrics": {"speed": jnp.zeros(())}}, "make reset and step agree"),
    ],
)
def test_step_that_changes_the_type_of_the_state_is_refused(change, match):
    class Drifting(Plain):
        def step(self, state, action):
            return super().step(state, action).replace(**change)

    with pytest.raises(ValueError, match=match):
        check(Drifting())


# ---- the other channels ----------------------------------------------------------------------


class Channels(StatefulModule):
    """A network that works but for the fields that are given."""

    def __init__(self, **fields):
        self.network = network()
        self.fields = lambda: fields  # a function, for NNX wants no arrays in a plain dict

    def initialize_state(self, batch_size):
        return self.network.initialize_state(batch_size)

    def __call__(self, state, x, rollout_extras=None):
        return self.network(state, x, rollout_extras).replace(**self.fields())


@pytest.mark.parametrize(
    ("fields", "kind", "match"),
    [
        ({"rollout_extras": np.zeros(7)}, ValueError, r"rollout_extras: .*leads with .*\(7,\)"),
        ({"rollout_extras": {"a": np.zeros(())}}, ValueError, r"rollout_extras\['a'\]: .*\(\)"),
        ({"regularization_loss": np.zeros((B, 5))}, ValueError, r"loss: expected .*\(3, 5\)"),
        ({"metrics": None}, TypeError, "metrics to be a dict with str keys, got None"),
        ({"metrics": {"a": {1: 0.0}}}, TypeError, "Channels: a: expected metrics"),
    ],
)
def test_channels_are_checked(fields, kind, match):
    with pytest.raises(kind, match=match):
        check(net=Channels(**fields))


def test_error_inside_the_environment_is_told_as_such():
    class Broken(Plain):
        def step(self, state, action):
            return {}["gone"]

    with pytest.raises(ValueError, match=r"Broken\.step failed .* KeyError: 'gone'"):
        check(Broken())
