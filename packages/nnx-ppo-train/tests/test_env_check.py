"""check_env: what it refuses, what it reports, and that it changes nothing of the user's."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import pytest
from nnx_ppo_train import EpisodeWrapper, RewardScalingWrapper, check_env
from nnx_ppo_train.envs import State, list_envs, make_env

OBS, ACTION = 4, 2


def fresh(**parts):
    fields = {
        "obs": jnp.zeros(OBS),
        "reward": jnp.zeros(()),
        "done": jnp.zeros((), bool),
        "info": {"goal": jnp.zeros(2), "lives": jnp.int32(3)},
        "metrics": {},
    }
    return State(**(fields | parts))


class Arm:
    """Takes two numbers; keywords change the state after a step."""

    observation_size = OBS
    action_size = ACTION

    def __init__(self, **changes):
        self.changes = changes

    def reset(self, rng):
        del rng
        return fresh()

    def step(self, state, action):
        assert action.shape == (ACTION,), action.shape
        return state.replace(**self.changes)


# ---- steps that change the state's type -------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"info": {"lives": jnp.int32(3)}}, r"misses state\.info\['goal'\] and has extra nothing"),
        (
            {"info": {"goal": jnp.zeros(2), "lives": jnp.int32(3), "new": jnp.zeros(())}},
            r"misses nothing and has extra state\.info\['new'\]",
        ),
        ({"obs": jnp.zeros(OBS, jnp.float16)}, r"float32 at state\.obs, got \(4,\) and float16"),
        ({"obs": jnp.zeros(OBS + 1)}, r"expected shape \(4,\) .*, got \(5,\)"),
        ({"reward": jnp.int32(1)}, r"dtype float32 at state\.reward, got \(\) and int32"),
        ({"done": jnp.zeros(())}, r"dtype bool at state\.done, got \(\) and float32"),
    ],
)
def test_step_that_changes_the_type_of_the_state_is_refused(changes, message):
    with pytest.raises(ValueError, match=rf"Arm\.step: .*{message}.*make reset and step agree"):
        check_env(Arm(**changes))


def test_done_of_no_truth_is_refused():
    class Keyed(Arm):
        def reset(self, rng):
            return fresh(done=jax.random.key(0))

    with pytest.raises(TypeError, match="Keyed: expected a done of bools or numbers, got key"):
        check_env(Keyed())


# ---- sizes that contradict what there is -------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (OBS + 1, r"expected the size of the observation, float32\[4\], got 5; make them agree"),
        ((2, 2), r"float32\[4\], got \(2, 2\)"),
        ({"pose": OBS}, r"got \['pose'\]; the observation has float32\[4\]"),
    ],
)
def test_contradictory_observation_size_is_refused(size, message):
    env = Arm()
    env.observation_size = size
    with pytest.raises(ValueError, match=rf"Arm\.observation_size: .*{message}"):
        check_env(env)


def test_contradictory_entry_of_observation_size_is_named():
    class Sees(Arm):
        def reset(self, rng):
            return fresh(obs={"vision": jnp.zeros((3, 4)), "pose": jnp.zeros(2)})

    env = Sees()
    env.observation_size = {"vision": (3, 4), "pose": 5}
    with pytest.raises(ValueError, match=r"Sees\.observation_size\['pose'\]: .*\[2\], got 5"):
        check_env(env)


@pytest.mark.parametrize("size", [OBS, (OBS,), None, "a space of another library"])
def test_sizes_that_agree_or_say_nothing_pass(size):
    env = Arm()
    env.observation_size = size
    check_env(env)


def test_contradictory_action_size_is_refused():
    env = Arm()
    env.action_size = 3
    with pytest.raises(ValueError, match=r"Arm\.step: .* action_size = 3 and .*float32\[3\], got"):
        check_env(env)


def test_contradictory_action_kind_is_refused():
    env = make_env("recall")
    env.action_kind = "continuous"
    with pytest.raises(ValueError, match=r"action_kind = 'continuous' state, float32\[4\], got Ty"):
        check_env(env)


# ---- the report --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_envs())
def test_built_in_environments_pass_every_check(name):
    report = check_env(RewardScalingWrapper(EpisodeWrapper(make_env(name), 5), 0.5))
    assert report.passed
    assert len(report.checked) == 4
    assert not report.skipped


def test_report_says_what_could_not_be_checked():
    env = Arm()
    env.action_size = env.observation_size = None
    shown = repr(check_env(env))
    assert shown.startswith("check_env(Arm): passed\n  checked  reset: float32[4] observation")
    assert "skipped  observation_size: not stated" in shown
    assert "skipped  step: the environment does not state its action_size" in shown


# ---- environments that reset themselves, however they are built --------------------------------


class ResetsInStep(Arm):
    def step(self, state, action):
        again = self.reset(jax.random.key(0))
        return jax.tree.map(lambda new, old: jnp.where(state.done, new, old), again, state)


class Slots:
    __slots__ = ("action_size", "inner")

    def __init__(self, inner):
        self.inner, self.action_size = inner, ACTION

    def reset(self, rng):
        return self.inner.reset(rng)

    def step(self, state, action):
        return self.inner.step(state, action)


class SlotsReset(Slots):
    __slots__ = ()

    def step(self, state, action):
        return self.reset(jax.random.key(0))


@dataclasses.dataclass(frozen=True)
class Frozen:
    inner: Arm
    action_size: int = ACTION

    def reset(self, rng):
        return self.inner.reset(rng)

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, state, action):
        return self.inner.step(state, action)

    def __hash__(self):
        return 0


@dataclasses.dataclass(frozen=True)
class FrozenReset(Frozen):
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, state, action):
        return self.reset(jax.random.key(0))

    def __hash__(self):
        return 0


class Property:
    action_size = ACTION

    def __init__(self, inner):
        self._wrapped = inner

    @property
    def env(self):
        return self._wrapped

    def reset(self, rng):
        return self.env.reset(rng)

    def step(self, state, action):
        return self.env.step(state, action)


class BoundMethods:
    """Holds methods, its own compiled, and those of the environment inside."""

    action_size = ACTION

    def __init__(self, inner):
        self.env = inner
        self.reset = inner.reset
        self.inner_step = inner.step
        self.step = jax.jit(self._step)

    def _step(self, state, action):
        return self.inner_step(state, action)


REGISTRY = []


class Registered(ResetsInStep):
    def __init_subclass__(cls):
        REGISTRY.append(cls)


def namespace():
    env = types.SimpleNamespace(action_size=ACTION, reset=lambda rng: fresh())
    env.step = types.MethodType(lambda self, state, action: self.reset(None), env)
    return env


SELF_RESETTING = {
    "inner": lambda: EpisodeWrapper(ResetsInStep(), 3),
    "slots": lambda: SlotsReset(Arm()),
    "slots around it": lambda: Slots(ResetsInStep()),
    "frozen": lambda: FrozenReset(Arm()),
    "frozen around it": lambda: Frozen(ResetsInStep()),
    "property": lambda: Property(Property(ResetsInStep())),
    "bound methods": lambda: BoundMethods(ResetsInStep()),
    "registered": Registered,
    "namespace": namespace,
}


def held(env):
    """What the environment and those inside it hold, by identity."""
    found = []
    while env is not None:
        slots = {n: getattr(env, n) for n in getattr(type(env), "__slots__", ())}
        found.append((type(env), {**getattr(env, "__dict__", {}), **slots}))
        env = next((v for v in found[-1][1].values() if hasattr(v, "step")), None)
    return found


@pytest.mark.parametrize("build", SELF_RESETTING.values(), ids=SELF_RESETTING.keys())
def test_self_reset_is_found_and_nothing_changes(build):
    env = build()
    before, subclasses = held(env), list(REGISTRY)
    for _ in range(2):  # compiled functions have been traced by the first
        with pytest.raises(TypeError, match=r"resets itself \(its step calls \w+\.reset\)"):
            check_env(env)
    assert held(env) == before
    assert subclasses == REGISTRY


@pytest.mark.parametrize("wrap", [Slots, Frozen, Property, BoundMethods])
def test_wrappers_of_any_build_pass(wrap):
    check_env(wrap(Arm()))


class StatefulOne(Arm):
    """Counts its steps on itself, as one that checks nothing of purity may."""

    count = 0

    def step(self, state, action):
        self.count += 1
        return super().step(state, action)


def test_attributes_that_a_step_writes_stay():
    env = StatefulOne()
    check_env(env)
    assert vars(env) == {"changes": {}}
