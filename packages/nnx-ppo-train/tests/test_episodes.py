"""Returns and lengths of training episodes against a plain loop across rollouts."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from nnx_ppo_train._episodes import EpisodeTally, tally_episodes

T, B = 5, 3

compiled = jax.jit(tally_episodes)


def plain_loop(rewards, done, broken):
    """Per rollout: returns and lengths of the episodes that ended in it; then what is under way."""
    returns, lengths = np.zeros(B), np.zeros(B)
    finished = []
    for rollout_rewards, rollout_done, skipped in zip(rewards, done, broken, strict=True):
        ended = []
        for t in range(T):
            for row in range(B):
                returns[row] += rollout_rewards[t, row]
                lengths[row] += 1
                if rollout_done[t, row]:
                    if not skipped[t, row]:
                        ended.append((returns[row], lengths[row]))
                    returns[row] = lengths[row] = 0
        finished.append(ended)
    return finished, returns, lengths


@given(st.integers(0, 2**32 - 1), st.sampled_from((0.0, 0.2, 0.7, 1.0)))
def test_tally_equals_a_plain_loop_across_two_rollouts(seed, rate):
    random = np.random.default_rng(seed)
    rewards = {
        name: random.normal(size=(2, T, B)).astype(np.float32) for name in ("speed", "energy")
    }
    done = random.random((2, T, B)) < rate
    truncated = done & (random.random((2, T, B)) < 0.5)
    broken = random.random((2, T, B)) < rate / 2
    total = rewards["speed"] + rewards["energy"]
    finished, returns, lengths = plain_loop(total, done, broken)

    tally = EpisodeTally.zero(B)
    for rollout in range(2):
        part = {name: leaf[rollout] for name, leaf in rewards.items()}
        ends = (done[rollout], truncated[rollout], broken[rollout])
        tally, metrics = compiled(tally, part, *ends)
        ended = np.array(finished[rollout]).reshape(-1, 2)
        assert metrics["train/episodes"] == len(ended)
        if len(ended):
            mean_return, mean_length = ended.mean(0)
            np.testing.assert_allclose(metrics["train/episode_reward"], mean_return, atol=1e-5)
            np.testing.assert_allclose(metrics["train/episode_length"], mean_length, rtol=1e-6)
        else:
            assert metrics["train/episode_reward"] == metrics["train/episode_length"] == 0
        by_reason = [metrics[f"train/ends/{r}"] for r in ("terminated", "truncated", "nonfinite")]
        counted = ends[0] & ~ends[2]
        expected = [counted & ~ends[1], counted & ends[1], ends[0] & ends[2]]
        assert by_reason == [entry.sum() for entry in expected]
    np.testing.assert_allclose(tally.returns, returns, atol=1e-5)
    np.testing.assert_array_equal(tally.lengths, lengths)


def test_rewards_of_ints_and_bare_arrays_are_taken():
    done = np.zeros((T, B), bool)
    done[-1] = True
    tally, metrics = compiled(EpisodeTally.zero(B), np.ones((T, B), np.int32), done, done)
    assert float(metrics["train/episode_reward"]) == float(metrics["train/episode_length"]) == T
    assert not np.any(tally.returns)
