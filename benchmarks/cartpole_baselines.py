"""What policies without learning earn on the cart-pole: the yardstick for learnt returns.

Run with `uv run python benchmarks/cartpole_baselines.py` (about a minute on two cores). It
prints the mean return over fresh episodes of random policies and of the best linear policies that a
search finds, for the built-in task and for the classic one without gusts. Linear policies push with
`clip(w @ features, -1, 1)`, the features being the full observation, the positions, or the
positions and their last differences (that is, the last two positions: the least memory there is).
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from nnx_ppo_train.envs import CartPole

N_CANDIDATES, N_ELITE, N_ROUNDS = 512, 48, 10
FRAME = 0.02  # seconds between observations


def memoryless(w, obs, previous, key):
    return w @ obs


def last_two(w, obs, previous, key):
    return w @ jnp.concatenate([obs, (obs - previous) / FRAME])


def uniform(w, obs, previous, key):
    return jax.random.uniform(key, (), minval=-1.0, maxval=1.0)


def tanh_normal(w, obs, previous, key):
    return jnp.tanh(jax.random.normal(key))


def episode_return(env: CartPole, policy: Callable, w, key):
    """Sum of rewards until the first end of an episode."""
    reset_key, action_key = jax.random.split(key)
    first = env.reset(reset_key)

    def step(carry, t):
        state, previous = carry
        force = policy(w, state.obs, previous, jax.random.fold_in(action_key, t))
        after = env.step(state, jnp.clip(force, -1.0, 1.0)[None])
        after = jax.tree.map(partial(jnp.where, state.done), state, after)  # stay where it ended
        return (after, state.obs), jnp.where(state.done, 0.0, after.reward)

    _, rewards = jax.lax.scan(step, (first, first.obs), jnp.arange(env.episode_length))
    return rewards.sum()


def make_evaluate(env: CartPole, policy: Callable) -> Callable:
    """Compiled (candidates, weights), (episodes,) keys -> (candidates,) mean returns."""
    one = partial(episode_return, env, policy)
    return jax.jit(jax.vmap(lambda w, keys: jax.vmap(partial(one, w))(keys).mean(), (0, None)))


def best_linear(env: CartPole, policy: Callable, n_weights: int, seed: int) -> np.ndarray:
    """Search over signs and sizes of the weights: random first, then around the best so far."""
    evaluate = make_evaluate(env, policy)
    rng = np.random.default_rng(seed)
    shape = (N_CANDIDATES, n_weights)
    candidates = rng.choice([-1.0, 1.0], shape) * 10 ** rng.uniform(-2.0, 1.5, shape)
    for round_ in range(N_ROUNDS):
        keys = jax.random.split(jax.random.key(seed * 1000 + round_), 48)
        returns = np.asarray(evaluate(jnp.asarray(candidates), keys))
        elite = candidates[np.argsort(-returns)[:N_ELITE]]
        parents = elite[rng.integers(0, N_ELITE, N_CANDIDATES - 2 * N_ELITE)]
        candidates = np.concatenate(
            [
                elite,
                parents * np.exp(rng.normal(0.0, 0.3, parents.shape)),
                rng.normal(elite.mean(0), elite.std(0) + 1e-3, elite.shape),
            ]
        )
    keys = jax.random.split(jax.random.key(seed * 1000 + N_ROUNDS), 48)
    return candidates[np.argmax(np.asarray(evaluate(jnp.asarray(candidates), keys)))]


def report(gust: float, n_episodes: int, seed: int) -> None:
    full = CartPole(gust=gust)
    positions = CartPole(gust=gust, observe_velocities=False)
    keys = jax.random.split(jax.random.key(seed + 1_000_003), n_episodes)
    rows = [
        ("random, uniform", full, uniform, 0),
        ("random, tanh of N(0, 1)", full, tanh_normal, 0),
        ("linear, all four quantities", full, memoryless, 4),
        ("linear, positions, memoryless", positions, memoryless, 2),
        ("linear, last two positions", positions, last_two, 4),
    ]
    print(f"\ngust {gust:g} N, maximum {full.max_return:g}, mean over {n_episodes} episodes")
    for label, env, policy, n_weights in rows:
        w = best_linear(env, policy, n_weights, seed) if n_weights else np.zeros(1)
        mean = float(make_evaluate(env, policy)(jnp.asarray(w)[None], keys)[0])
        weights = f"  w = {np.round(w, 2).tolist()}" if n_weights else ""
        print(f"  {label:<32}{mean:7.1f}  {mean / env.max_return:6.1%}{weights}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gust", type=float, nargs="*", default=[2.0, 0.0], help="newtons")
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    for gust in options.gust:
        report(gust, options.episodes, options.seed)
    print(f"\n{time.perf_counter() - start:.0f} s")
