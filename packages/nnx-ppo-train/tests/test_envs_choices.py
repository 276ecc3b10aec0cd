"""The choice tasks: their optimum, their yardsticks, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import HybridChoice, MaskedChoice, MultiChoice

EPISODES = 4000


def returns(env, policy, episodes=EPISODES):
    """Returns of episodes of `policy(key, obs) -> action`, counted up to their end."""

    def episode(key):
        reset_key, policy_key = jax.random.split(key)

        def step(carry, t):
            state, over = carry
            state = env.step(state, policy(jax.random.fold_in(policy_key, t), state.obs))
            reward = jnp.where(over, 0.0, state.reward)
            return (state, over | state.done), reward

        start = (env.reset(reset_key), jnp.zeros((), bool))
        return jax.lax.scan(step, start, jnp.arange(env.episode_length))[1].sum()

    return np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), episodes)))


def assert_mean(found, expected):
    """The mean is the expected one within four standard errors."""
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(len(found)) + 1e-5


# ---- hybrid ----------------------------------------------------------------------------------

HYBRID = HybridChoice(n_choices=3, n_rounds=4)


def hybrid_action(obs, choice=None, aim=None):
    """The best action, but for what is given."""
    return {
        "choice": jnp.argmax(obs[:3]) if choice is None else jnp.asarray(choice, jnp.int32),
        "aim": obs[3:] if aim is None else jnp.full(1, aim),
    }


def test_right_choice_and_aim_earn_the_optimum_of_hybrid_choice():
    found = returns(HYBRID, lambda key, obs: hybrid_action(obs), 50)
    np.testing.assert_allclose(found, HYBRID.max_return)


@pytest.mark.parametrize("aim", [0.0, 0.5])
def test_constant_aim_earns_what_is_stated(aim):
    assert_mean(
        returns(HYBRID, lambda key, obs: hybrid_action(obs, aim=aim)), HYBRID.return_without_aim
    )


def test_constant_choice_earns_what_is_stated():
    found = returns(HYBRID, lambda key, obs: hybrid_action(obs, choice=1))
    assert_mean(found, HYBRID.return_without_choice)


def test_aim_earns_less_the_further_it_is():
    state = HYBRID.reset(jax.random.key(0))
    target = state.problem["target"][0]
    state = state.replace(problem={**state.problem, "target": jnp.array([0.2])})
    rewards = [
        float(HYBRID.step(state, hybrid_action(state.obs, aim=0.2 + miss)).reward)
        for miss in (0.0, -0.25, 0.5, 0.8)
    ]
    assert -1 <= target <= 1
    np.testing.assert_allclose(rewards, [1.0, 0.75, 0.0, 0.0], atol=1e-6)


# ---- multi -----------------------------------------------------------------------------------

MULTI = MultiChoice(sizes=(2, 4), n_rounds=3)


def test_reward_of_multi_choice_is_the_share_of_right_dials():
    state = MULTI.reset(jax.random.key(3))
    wanted = np.asarray(state.problem["wanted"])
    np.testing.assert_array_equal(state.obs, np.append(np.eye(2)[wanted[0]], np.eye(4)[wanted[1]]))
    for off, reward in (((0, 0), 1.0), ((1, 0), 0.5), ((0, 2), 0.5), ((1, 1), 0.0)):
        action = (wanted + off) % (2, 4)
        assert float(MULTI.step(state, jnp.asarray(action)).reward) == reward


def test_positions_shown_earn_the_optimum_of_multi_choice():
    def best(key, obs):
        return jnp.stack([jnp.argmax(obs[:2]), jnp.argmax(obs[2:])])

    np.testing.assert_allclose(returns(MULTI, best, 50), MULTI.max_return)


def test_chance_earns_what_is_stated():
    sizes = jnp.array(MULTI.sizes)
    assert_mean(
        returns(MULTI, lambda key, obs: jax.random.randint(key, (2,), 0, sizes)),
        MULTI.chance_return,
    )
    assert_mean(returns(MULTI, lambda key, obs: jnp.array([1, 2])), MULTI.chance_return)


# ---- masked ----------------------------------------------------------------------------------

MASKED = MaskedChoice(n_choices=5, n_allowed=2, n_rounds=4)


def best_allowed(key, obs):
    return jnp.argmax(jnp.where(obs["action_mask"], obs["values"], -1.0))


def any_allowed(key, obs):
    return jnp.argmax(jnp.where(obs["action_mask"], jax.random.uniform(key, (5,)), -1.0))


def test_largest_allowed_value_earns_the_optimum():
    np.testing.assert_allclose(returns(MASKED, best_allowed, 50), MASKED.max_return, rtol=1e-6)


def test_random_allowed_choices_earn_what_is_stated():
    assert_mean(returns(MASKED, any_allowed), MASKED.random_return)


def test_largest_value_whether_allowed_or_not_earns_what_is_stated():
    found = returns(MASKED, lambda key, obs: jnp.argmax(obs["values"]))
    assert_mean(found, MASKED.return_without_mask)


def test_choice_that_is_not_allowed_ends_the_episode():
    state = MASKED.reset(jax.random.key(0))
    forbidden = MASKED.step(state, jnp.argmin(state.obs["action_mask"]))
    assert (float(forbidden.reward), bool(forbidden.done)) == (0.0, True)
    allowed = MASKED.step(state, jnp.argmax(state.obs["action_mask"]))
    assert float(allowed.reward) > 0
    assert not bool(allowed.done)


def test_mask_changes_from_step_to_step_and_always_allows_as_many():
    state = MASKED.reset(jax.random.key(0))
    masks = [state.obs["action_mask"]]
    for _ in range(8):  # on, past the end: also what is shown then must allow something
        state = MASKED.step(state, best_allowed(None, state.obs))
        masks.append(state.obs["action_mask"])
    assert np.sum(masks, axis=-1).tolist() == [2] * 9
    assert len(np.unique(masks, axis=0)) > 1


# ---- all of them -----------------------------------------------------------------------------


@pytest.mark.parametrize("env", [HYBRID, MULTI, MASKED], ids=lambda env: type(env).__name__)
def test_episode_terminates_after_its_last_round_and_rounds_differ(env):
    best = {HYBRID: lambda key, obs: hybrid_action(obs), MASKED: best_allowed}
    act = best.get(env, lambda key, obs: jnp.zeros(2, jnp.int32))
    state = env.reset(jax.random.key(2))
    seen, done = [], []
    for _ in range(env.episode_length):
        seen.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.obs)]))
        state = env.step(state, act(None, state.obs))
        done.append(bool(state.done))
    assert done == [False] * (env.episode_length - 1) + [True]
    assert not bool(state.info["truncated"])
    assert len(np.unique(seen, axis=0)) > 1


@pytest.mark.parametrize(
    ("kind", "options", "error", "match"),
    [
        (HybridChoice, {"n_choices": 1}, ValueError, "n_choices: expected at least 2, got 1"),
        (HybridChoice, {"n_rounds": 0}, ValueError, "n_rounds: expected at least 1, got 0"),
        (MultiChoice, {"sizes": (2, 1)}, ValueError, r"sizes\[1\]: expected at least 2, got 1"),
        (MultiChoice, {"sizes": ()}, ValueError, "sizes must have at least one entry, got none"),
        (MultiChoice, {"sizes": 3}, TypeError, "sizes: expected a sequence of integers, got 3"),
        (MaskedChoice, {"n_allowed": 0}, ValueError, "n_allowed: expected at least 1, got 0"),
        (
            MaskedChoice,
            {"n_allowed": 7},
            ValueError,
            "n_allowed: expected at most n_choices = 6, got 7",
        ),
        (MaskedChoice, {"n_choices": 2.0}, TypeError, r"n_choices: expected an integer, got 2\.0"),
    ],
)
def test_bad_options_are_refused(kind, options, error, match):
    with pytest.raises(error, match=rf"^{kind.__name__}: {match}"):
        kind(**options)


@pytest.mark.parametrize(
    ("env", "action", "error", "match"),
    [
        (HYBRID, jnp.zeros(1), ValueError, r"action dict with .*\['aim', 'choice'\], got Array"),
        (HYBRID, {"aim": 0.0}, ValueError, r"got \['aim'\]"),
        (HYBRID, {"aim": jnp.zeros(2), "choice": 0}, ValueError, r"aim: expected .* shape \(1,\)"),
        (HYBRID, {"aim": jnp.zeros(1), "choice": 0.5}, TypeError, "choice: expected an integer"),
        (MULTI, jnp.zeros(2), TypeError, r"an integer action of shape \(2,\); got float32"),
        (MULTI, jnp.zeros((4, 2), int), ValueError, r"shape \(2,\), got \(4, 2\); environments"),
        (MASKED, jnp.zeros(1, int), ValueError, r"expected an action of shape \(\), got \(1,\)"),
    ],
)
def test_bad_actions_are_refused(env, action, error, match):
    with pytest.raises(error, match=rf"^{type(env).__name__}.*{match}"):
        env.step(env.reset(jax.random.key(0)), action)
