"""verify_replay passes what the loss can replay, and names what it cannot."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_ppo_train import (
    NormalSampler,
    PPOAdapter,
    ReplayError,
    unroll_env,
    verify_replay,
)
from nnx_ppo_train.envs import State
from nnx_ppo_train.verification._traced_rollout import ends_everywhere
from nnx_stateful import (
    Concat,
    Container,
    Dense,
    Filter,
    Normalizer,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    StochasticModule,
    reset_rows,
    scan_unroll,
)

B, T, OBS, ACTION = 3, 5, 3, 2


class Drift:
    """An environment whose episodes never end, with as few operations as possible."""

    action_size = ACTION

    def reset(self, rng):
        start = jax.random.uniform(rng, (OBS,))
        return State(start, jnp.zeros(()), jnp.zeros((), bool), {}, {})

    def step(self, state, action):
        return state.replace(obs=0.9 * state.obs + action.sum(), reward=action[0])


class Leaky(StatefulModule):
    """A leaky average of the input over the episode."""

    def __call__(self, state, x, rollout_extras=None):
        y = 0.5 * state + x
        return StatefulModuleOutput(y, y, 0.0, {})

    def initialize_state(self, batch_size):
        return jnp.zeros((batch_size, OBS))

    def reset_state(self, prev_state):
        return jnp.zeros_like(prev_state)


def actor_critic(*trunk, seed=0, **sampler_options):
    rngs = nnx.Rngs(seed)
    head = Sequential([Dense(OBS, 2 * ACTION, rngs), NormalSampler(rngs, **sampler_options)])
    return Sequential([*trunk, PPOAdapter(action=head, value=Dense(OBS, 1, rngs))])


def check(network, unroll_fn=unroll_env, compiled=False, **options):
    """verify_replay at the size of these tests.

    Most of these tests need a network of their own, which takes longer to compile than to run
    operation by operation.
    """
    sizes = {"n_envs": B, "rollout_length": T} | options
    with jax.disable_jit(not compiled):
        return verify_replay(Drift(), network, unroll_fn=unroll_fn, **sizes)


def changing_rollout(change):
    """A rollout function that stores something else: ``change(rollout)``."""

    def unroll_fn(*args):
        state, env_state, rollout = unroll_env(*args)
        return state, env_state, change(rollout)

    return unroll_fn


# ---- what is NaN ---------------------------------------------------------------------------------


def spoiled(network, path):
    state = nnx.to_flat_state(nnx.state(network))
    for place, variable in state:
        if "/".join(map(str, place)).endswith(path):
            variable.set_value(jnp.full_like(variable.get_value(), jnp.nan))
    nnx.update(network, nnx.from_flat_state(state))
    return network


@pytest.mark.slow
def test_network_of_nan_fails_naming_module_leaf_and_variables():
    network = actor_critic(Normalizer(OBS), Leaky())
    nnx.update(network, jax.tree.map(lambda leaf: leaf * jnp.nan, nnx.state(network, nnx.Param)))
    match = (
        r"the output of module '2/action/0' \(Dense\) is nan, first at step \d, row \d: "
        r"module/2/action/0; expected numbers.*Variables that hold nan: .*kernel"
    )
    with pytest.raises(ReplayError, match=match) as failure:
        check(network)
    report = failure.value.report
    assert not report.passed
    assert report.worst().deviation == np.inf
    assert list(report.stages) == ["finite"]


def test_module_of_nan_is_named_before_what_reads_it():
    network = spoiled(actor_critic(Dense(OBS, OBS, nnx.Rngs(2)), Leaky()), "0/linear/bias")
    with pytest.raises(ReplayError, match=r"the output of module '0' \(Dense\) is nan, first"):
        check(network)


@pytest.mark.slow
def test_observation_of_nan_is_named():
    class Lost(Drift):
        def step(self, state, action):
            return super().step(state, action).replace(obs=jnp.full(OBS, jnp.nan))

    with jax.disable_jit(), pytest.raises(ReplayError, match=r"the observation is nan, first at"):
        verify_replay(Lost(), actor_critic(), n_envs=B, rollout_length=T)


class NanWhenLong(Leaky):
    """Its own unroll gives NaN at the end of a long sequence."""

    def unroll(self, state, xs, done=None, rollout_extras=None):
        out = scan_unroll(self, state, xs, done, rollout_extras)
        bad = jnp.arange(len(xs)) >= T - 1
        return out.replace(output=jnp.where(bad[:, None, None], jnp.nan, out.output))


@pytest.mark.slow
def test_nan_of_the_replay_alone_is_found():
    with pytest.raises(ReplayError, match=r"deviates by inf, limit 0\.000") as failure:
        check(actor_critic(NanWhenLong()))
    assert list(failure.value.report.stages)[-1] == "sequence"


# ---- what the loss can replay ------------------------------------------------------------------


@pytest.fixture(scope="module")
def report():
    return check(actor_critic(Normalizer(OBS), Leaky()))


def test_report_holds_every_stage_and_quantity_within_limits(report):
    assert report.passed
    assert list(report.stages) == ["rollout", "steps", "noise", "windows", "sequence"]
    replayed = {"ratio", "log_likelihood", "value", "action", "loss", "module/0", "module/1"}
    for name in ("steps", "noise", "windows", "sequence"):
        deviations = report.stages[name].deviations
        assert replayed | {"carry/1"} <= set(deviations)
        assert all(leaf.shape == (T, B) for leaf in deviations.values())
        assert max(leaf.max() for leaf in deviations.values()) < 1e-4
    assert {"obs", "carry/1", "returned/1"} <= set(report.stages["rollout"].deviations)


def test_report_counts_ends_and_finds_the_worst(report):
    assert report.terminations > 0
    assert report.truncations > 0
    assert (report.n_envs, report.rollout_length, report.float64) == (B, T, False)
    worst = report.worst()
    stage = report.stages[worst.stage]
    assert stage.deviations[worst.quantity][worst.step, worst.row] == worst.deviation
    assert worst.deviation / worst.limit == max(
        (leaf / stage.limits[name]).max()
        for stage in report.stages.values()
        for name, leaf in stage.deviations.items()
    )


@pytest.mark.parametrize(
    ("ends", "enough"),
    [
        ({(0, 0): "terminated", (2, 1): "truncated"}, True),
        ({(0, 0): "terminated", (1, 1): "truncated"}, False),
        ({(2, 0): "terminated", (2, 1): "truncated"}, False),
        ({(0, 0): "terminated", (2, 1): "terminated"}, False),
        ({(0, 0): "truncated", (2, 1): "truncated"}, False),
    ],
)
def test_rollout_has_enough_ends_with_both_kinds_inside_and_at_its_last_step(ends, enough):
    done, truncated = np.zeros((2, 3, 2), bool)
    for place, kind in ends.items():
        done[place], truncated[place] = True, kind == "truncated"
    assert ends_everywhere(done, truncated) == enough


def test_report_prints_a_table(report):
    lines = str(report).splitlines()
    assert lines[0].startswith(f"replay passed: {B} environments, {T} steps, ")
    assert lines[1].split() == ["largest", "deviation", *report.stages]
    assert {line.split()[0] for line in lines[2:-1]} >= {"ratio", "value", "carry", "module", "obs"}
    assert lines[-1].startswith("closest to its limit: ")


def test_limits_of_likelihoods_grow_with_small_standard_deviations():
    report = check(actor_critic(std_scale=0.01))
    assert 0 < report.smallest_std < 0.02
    limits = report.stages["steps"].limits
    assert limits["ratio"].max() == pytest.approx(1e-4 / report.smallest_std)
    assert limits["module/0/action/1/log_likelihood"].max() == limits["ratio"].max()
    assert limits["value"].max() == limits["module/0/action/1/action"].max() == 1e-4


class Chaotic(Leaky):
    """Adds a logistic map, which amplifies rounding; a sequence rounds another formula for it."""

    def __init__(self):
        self.rate = nnx.Param(jnp.asarray(3.9))

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(self.rate * state * (1 - state), x + state, 0.0, {})

    def unroll(self, state, xs, done=None, rollout_extras=None):
        rate = self.rate[...]

        def step(state, inputs):
            x, ended = inputs
            return reset_rows(self, rate * state - rate * state**2, ended), x + state

        state, output = jax.lax.scan(step, state, (xs, done))
        return StatefulModuleOutput(state, output, 0.0, {})

    def initialize_state(self, batch_size):
        return jnp.broadcast_to(jnp.linspace(0.2, 0.4, OBS), (batch_size, OBS))

    def reset_state(self, prev_state):
        return jnp.linspace(0.2, 0.4, OBS)


def test_rounding_that_the_network_amplifies_passes_in_the_sequence_alone():
    report = check(actor_critic(Chaotic()), compiled=True, rollout_length=32)
    windows, sequence = report.stages["windows"], report.stages["sequence"]
    assert windows.limits["module/0"].max() == 1e-4
    assert windows.deviations["module/0"].max() < 1e-5
    assert sequence.deviations["module/0"].max() > 1e-4
    assert (np.diff(sequence.limits["module/0"], axis=0) >= 0).all()


class DrawsFromStream(StatefulModule):
    """Adds noise from an RNG stream; replays it unless told not to."""

    def __init__(self, rngs, replays=True):
        self.stream = rngs.noise.fork()
        self.replays = replays

    def __call__(self, state, x, rollout_extras=None):
        afresh = rollout_extras is None or not self.replays
        noise = self.stream.normal(x.shape, x.dtype) if afresh else rollout_extras
        return StatefulModuleOutput(state, x + noise, 0.0, {}, noise)


def test_network_is_left_untouched_and_its_streams_where_they_were():
    network = actor_critic(Normalizer(OBS), DrawsFromStream(nnx.Rngs(0)))
    graphdef, before = nnx.split(network)
    before = jax.tree.map(jnp.copy, before)
    report = check(network)
    assert report.advanced_streams == ("child_modules/1/stream/count",)
    assert report.changed_variables == ()
    assert nnx.graphdef(network) == graphdef
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), before, nnx.state(network)))


@pytest.mark.slow
def test_traced_network_acts_as_the_network_itself():
    network = actor_critic(Leaky())
    differences = []

    def unroll_fn(env, env_state, networks, *rest):
        assert isinstance(networks, Sequential)
        traced, plain = (unroll_env(env, env_state, net, *rest) for net in (networks, network))
        jax.tree.map(
            lambda a, b: jax.debug.callback(lambda d: differences.append(d), jnp.abs(a - b).max()),
            traced[2].network_output,
            plain[2].network_output,
        )
        return traced

    check(network, unroll_fn)
    jax.effects_barrier()
    assert len(differences) >= 3
    assert max(differences) < 1e-4


# ---- faults of rollout functions ---------------------------------------------------------------


@pytest.mark.fast("1-late")
@pytest.mark.parametrize(("shift", "word"), [(1, "late"), (-1, "early")])
def test_done_stored_at_another_step_is_found(shift, word):
    unroll_fn = changing_rollout(
        lambda rollout: dataclasses.replace(rollout, done=jnp.roll(rollout.done, shift, axis=0))
    )
    with pytest.raises(ReplayError, match=rf"done is stored one step {word}.*'0' \(Leaky\)"):
        check(actor_critic(Leaky()), unroll_fn)


def test_resets_of_other_rows_than_those_of_done_are_found():
    def unroll_fn(env, env_state, networks, state, length, key):
        state, env_state, rollout = unroll_env(env, env_state, networks, state, length, key)
        return (
            state,
            env_state,
            dataclasses.replace(rollout, done=jnp.roll(rollout.done, 1, axis=1)),
        )

    with pytest.raises(ReplayError, match="done does not say which rows were reset"):
        check(actor_critic(Leaky()), unroll_fn)


def test_rollout_that_begins_with_a_later_carry_is_found():
    def unroll_fn(env, env_state, networks, state, *rest):
        later = networks(state, env_state.obs).next_state
        return unroll_env(env, env_state, networks, later, *rest)

    with pytest.raises(ReplayError, match=r"began with another carry state of module '0'"):
        check(actor_critic(Leaky()), unroll_fn)


@pytest.mark.slow
def test_rollout_that_returns_a_carry_without_its_last_resets_is_found():
    def unroll_fn(*args):
        _, env_state, rollout = unroll_env(*args)
        before_reset = jax.tree.map(lambda leaf: leaf[-1], rollout.rollout_extras.next_state)
        return before_reset, env_state, rollout

    with pytest.raises(ReplayError, match=r"'0' \(Leaky\) that unroll_fn returned is not"):
        check(actor_critic(Leaky()), unroll_fn)


def test_statistics_updated_before_the_loss_are_found():
    def unroll_fn(env, env_state, networks, *rest):
        result = unroll_env(env, env_state, networks, *rest)
        networks.update_statistics(result[2].rollout_extras)
        return result

    with pytest.raises(ReplayError, match=r"module '0' \(Normalizer\) is another") as caught:
        check(actor_critic(Normalizer(OBS), Leaky()), unroll_fn)
    assert "child_modules/0/mean" in str(caught.value)
    assert "call update_statistics after the loss" in str(caught.value)
    assert "child_modules/0/counter" in caught.value.report.changed_variables
    assert not caught.value.report.passed
    assert list(caught.value.report.stages) == ["rollout", "steps"]
    assert str(caught.value.report).startswith("replay FAILED")


def test_observations_after_the_step_are_found():
    def unroll_fn(env, env_state, *rest):
        state, env_state, rollout = unroll_env(env, env_state, *rest)
        following = jnp.concatenate([rollout.obs[1:], env_state.obs[None]])
        return state, env_state, dataclasses.replace(rollout, obs=following)

    with pytest.raises(ReplayError, match=r"Transition\.obs is not what the network was given"):
        check(actor_critic(Leaky()), unroll_fn)


def test_changed_outputs_are_found():
    def double(rollout):
        output = rollout.network_output
        output = dataclasses.replace(output, value_estimates=2 * output.value_estimates)
        return dataclasses.replace(rollout, network_output=output)

    with pytest.raises(ReplayError, match=r"network_output is not what the network.*value"):
        check(actor_critic(Leaky()), changing_rollout(double))


def test_extras_that_are_not_stored_are_found():
    unroll_fn = changing_rollout(lambda rollout: dataclasses.replace(rollout, rollout_extras=None))
    with pytest.raises(TypeError, match="expected unroll_fn to store what the network emitted"):
        check(actor_critic(Leaky()), unroll_fn)


def test_rollout_without_ends_is_found(monkeypatch):
    monkeypatch.setattr("nnx_ppo_train.verification._traced_rollout.MOST_ROLLOUTS", 2)
    unroll_fn = changing_rollout(
        lambda rollout: dataclasses.replace(rollout, done=jnp.zeros_like(rollout.done))
    )
    with pytest.raises(ReplayError, match="expected episodes to end inside the rollout"):
        check(actor_critic(Leaky()), unroll_fn)


# ---- faults of networks ------------------------------------------------------------------------


class ResetsLate(Leaky):
    """In a sequence, resets a row one step after its done; what it returns is as it should be."""

    def unroll(self, state, xs, done=None, rollout_extras=None):
        late = jnp.concatenate([jnp.zeros_like(done[:1]), done[:-1]])
        out = scan_unroll(self, state, xs, late, rollout_extras)
        return out.replace(next_state=reset_rows(self, out.next_state, done[-1]))


class ResetsEarly(Leaky):
    """In a sequence, resets a row one step before its done."""

    def unroll(self, state, xs, done=None, rollout_extras=None):
        early = jnp.concatenate([done[1:], done[-1:]])
        out = scan_unroll(self, state, xs, early, rollout_extras)
        return out.replace(next_state=reset_rows(self, out.next_state, done[-1]))


class NeverResets(Leaky):
    """In a sequence, does not reset at all."""

    def unroll(self, state, xs, done=None, rollout_extras=None):
        return scan_unroll(self, state, xs, None, rollout_extras)


@pytest.mark.fast("ResetsLate-*")
@pytest.mark.parametrize(
    ("faulty", "found"),
    [
        (ResetsLate, "output of module '1' (ResetsLate) is another in the replay of 3 steps"),
        (ResetsEarly, "output of module '1' (ResetsEarly) is another in the replay of 3 steps"),
        (NeverResets, "carry state of module '1' (NeverResets) is another in the replay of a"),
    ],
)
def test_own_unroll_that_resets_at_another_step_is_found(faulty, found):
    with pytest.raises(ReplayError) as caught:
        check(actor_critic(Normalizer(OBS), faulty(), Leaky()))
    assert found in str(caught.value)


class DrawsAnew(StochasticModule):
    """Draws noise from its carry also where it is given what it drew."""

    def __call__(self, state, x, rollout_extras=None):
        noise = self.normal(state, x.shape[-1:])
        return StatefulModuleOutput(state.advance(), x + noise, 0.0, {}, noise)


def test_noise_drawn_anew_from_the_carry_is_found():
    with pytest.raises(ReplayError, match=r"module '1' \(DrawsAnew\) depends.* drawn anew"):
        check(actor_critic(Leaky(), DrawsAnew(nnx.Rngs(0)), Leaky()))


@pytest.mark.slow
def test_noise_drawn_anew_from_a_stream_is_found():
    with pytest.raises(ReplayError, match=r"module '1' \(DrawsFromStream\) is another") as caught:
        check(actor_critic(Leaky(), DrawsFromStream(nnx.Rngs(0), replays=False)))
    assert "advanced: child_modules/1/stream/count" in str(caught.value)


class KeepsVariable(StatefulModule):
    """Keeps its memory in a variable of a given kind, and not in the carry."""

    def __init__(self, kind):
        self.memory = kind(jnp.zeros(OBS))

    def __call__(self, state, x, rollout_extras=None):
        self.memory[...] = 0.5 * self.memory[...] + x.mean(axis=0)
        return StatefulModuleOutput(state, x + self.memory[...], 0.0, {})


def test_memory_in_a_variable_is_refused():
    with pytest.raises(RuntimeError, match=r"KeepsVariable \(at child_modules/1\) wrote .*memory"):
        check(actor_critic(Leaky(), KeepsVariable(nnx.Variable)))


class DisguisedMemory(nnx.RngState):
    """A variable that passes for an RNG stream, which a call may advance."""


def test_memory_disguised_as_a_stream_is_found():
    with pytest.raises(ReplayError, match=r"module '1' \(KeepsVariable\) is another") as caught:
        check(actor_critic(Leaky(), KeepsVariable(DisguisedMemory)))
    assert "advanced: child_modules/1/memory" in str(caught.value)


class Tally:
    """A plain object, in which NNX sees no state."""

    calls = 0.0


class KeepsObject(StatefulModule):
    """Counts its calls in a plain object."""

    def __init__(self):
        self.tally = Tally()

    def __call__(self, state, x, rollout_extras=None):
        self.tally.calls += 1.0
        return StatefulModuleOutput(state, x + self.tally.calls, 0.0, {})


def test_memory_in_a_plain_object_is_found():
    with pytest.raises(ReplayError, match=r"module '1' \(KeepsObject\) is another"):
        check(actor_critic(Leaky(), KeepsObject()))


class WrongWhenLong(Leaky):
    """Forgets resets in sequences that are longer than a window."""

    def unroll(self, state, xs, done=None, rollout_extras=None):
        return scan_unroll(self, state, xs, done if len(xs) <= 3 else None, rollout_extras)


def test_fault_that_only_long_sequences_have_is_found():
    with pytest.raises(ReplayError, match=r"\(WrongWhenLong\) is another.* the whole rollout"):
        check(actor_critic(WrongWhenLong(), Leaky()))


class Backwards(Container):
    """Runs its children in another order than that of their names and construction."""

    def route(self, call, x):
        return call("a", call("b", call("c", x)))


def test_first_module_in_the_order_of_execution_is_blamed():
    network = actor_critic(Backwards({"a": Leaky(), "b": DrawsAnew(nnx.Rngs(0)), "c": Leaky()}))
    with pytest.raises(ReplayError, match=r"module '0/b' \(DrawsAnew\) depends") as caught:
        check(network)
    assert "module/0/a (" in str(caught.value)
    assert "module/0/c" not in str(caught.value)


@pytest.mark.slow
def test_compute_of_a_graph_is_blamed_before_its_population_and_what_reads_it():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("x", OBS, input_from="x")
    graph.add_population("noisy", OBS, compute=DrawsAnew(nnx.Rngs(1)))
    graph.add_output("after", OBS)
    graph.connect("x", "noisy")
    graph.connect("noisy", "after")
    graph.connect("noisy", "noisy", delay=1)
    graph.finalize()
    network = actor_critic(Filter({"x": lambda x: x}), graph, Concat(after=Leaky()))
    with pytest.raises(ReplayError, match="the output of module '1/computes/noisy' depends"):
        check(network)


# ---- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_envs": 0}, ValueError, "n_envs: expected a whole number of at least 1"),
        (
            {"rollout_length": 1},
            ValueError,
            "rollout_length: expected .* of at least 2",
        ),
        ({"tolerance": 0.0}, ValueError, "verify_replay: tolerance: expected .* above 0"),
        ({"n_envs": 2.0}, TypeError, "verify_replay: n_envs: expected a whole number"),
    ],
)
def test_arguments_out_of_range_are_refused(options, error, match):
    with pytest.raises(error, match=match):
        check(actor_critic(), **options)


def test_network_that_does_not_fit_the_environment_is_refused():
    with pytest.raises(TypeError, match="network whose output is a PPONetworkOutput, got"):
        check(Sequential([Dense(OBS, OBS, nnx.Rngs(0))]))
