"""Bad values at every public function: a documented error that says what was expected."""

import functools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ._fuzz import AT_ONCE, MANY, problem
from ._fuzz_points import entries
from ._fuzz_runs import nothing_compiles

NAMES = [
    "BernoulliSampler", "BetaSampler", "CategoricalSampler", "EpisodeWrapper", "EvalConfig",
    "MultiCategoricalSampler", "NetworkOptions", "NormalSampler", "NormalTanhSampler", "PPOAdapter",
    "PPOConfig", "RewardNormalizer", "RewardScalingWrapper", "RolloutOptions", "ScaleLearningRate",
    "Stop", "TrainConfig", "VideoConfig", "check_boundary", "check_env", "deterministic", "envs",
    "eval_rollout", "find_graph", "freeze", "gae", "make_env", "make_mlp_actor_critic",
    "make_network", "parameter_paths", "ppo_loss", "record_episode", "stop_at_return", "train_ppo",
    "train_ppo_many", "unroll_env", "verify_replay",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("whole_tracebacks")
points = functools.cache(entries)  # made when needed: some compile
PASSED: set[tuple[str, frozenset[tuple[str, str]]]] = set()


@pytest.fixture(scope="module", autouse=True)
def only_shapes():
    points()  # which compile
    with nothing_compiles():
        yield


def check(name: str, changes: dict[str, str]) -> None:
    __tracebackhide__ = True
    key = (name, frozenset(changes.items()))
    if key in PASSED:  # a change alone comes again and again
        return
    found = problem(lambda: points()[name].run(changes))
    if found is not None:
        pytest.fail(f"{name} with {changes!a}: {found}", pytrace=False)
    PASSED.add(key)


def test_every_entry_point_has_a_name():
    assert sorted(points()) == sorted(NAMES)


@settings(max_examples=60, derandomize=True)
@given(data=st.data())
def test_bad_value_raises_a_documented_error(data):
    name = data.draw(st.sampled_from(NAMES))
    check(name, data.draw(points()[name].changes()))


@pytest.mark.slow
@pytest.mark.skipif("NNX_FUZZ" not in os.environ, reason="set NNX_FUZZ=1 for thousands of examples")
@pytest.mark.parametrize("name", NAMES)
def test_many_bad_values_raise_documented_errors(name):
    @MANY
    @given(data=st.data())
    def run(data):
        for _ in range(AT_ONCE):
            check(name, data.draw(points()[name].changes()))

    run()
