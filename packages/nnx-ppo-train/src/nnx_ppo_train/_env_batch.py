"""Environments in parallel, and what happens to them when episodes end."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key
from nnx_stateful import PyTree, select_rows

from ._any_row import any_row, where_met

_TRUNCATION_KEYS = ("truncated", "truncation")


class EnvBatch:
    """``n_envs`` copies of one environment, stepped together.

    A state leaf is batched iff its shape under ``vmap(reset)`` is (B,) + that under ``reset``;
    others (MuJoCo Warp has some) are taken from the stepped state as they are.

    Args:
      env: an environment with ``reset(rng)`` and ``step(state, action)``, not vectorised.
      n_envs: B.
    """

    def __init__(self, env: Any, n_envs: int):
        self.env = env
        self.n_envs = n_envs
        key = jax.eval_shape(lambda: jax.random.key(0))
        single = jax.eval_shape(env.reset, key)
        keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), n_envs))
        batched = jax.eval_shape(jax.vmap(env.reset), keys)
        self._is_batched = jax.tree.map(lambda b, s: b.shape == (n_envs, *s.shape), batched, single)

    def reset(self, key: Key[Array, ""]) -> Any:
        """Returns fresh states, leaves (B, ...), without weak types, which cost a second trace."""
        return self.reset_each(jax.random.split(key, self.n_envs))

    def reset_each(self, keys: Key[Array, "B"]) -> Any:
        """Returns fresh states, one for each key."""
        return jax.tree.map(_strong, jax.vmap(self.env.reset)(keys))

    def step(self, states: Any, actions: PyTree) -> Any:
        """Steps every environment with its action, leaves (B, ...)."""
        return jax.vmap(self.env.step)(states, actions)

    def select(self, done: Bool[Array, "B"], fresh: Any, stepped: Any) -> Any:
        """Takes the rows of ``fresh`` where ``done`` is set, the others of ``stepped``."""
        return jax.tree.map(
            lambda batched, new, old: select_rows(done, new, old) if batched else old,
            self._is_batched,
            fresh,
            stepped,
        )

    def adopt(self, fresh: Any, stepped: Any) -> Any:
        """Takes every row of ``fresh``; leaves that are not batched come from ``stepped``."""
        return jax.tree.map(
            lambda batched, new, old: new if batched else old, self._is_batched, fresh, stepped
        )

    def take(self, states: Any, rows: Array) -> Any:
        """Gathers rows of a batch of states."""
        return jax.tree.map(
            lambda batched, leaf: leaf[rows] if batched else leaf, self._is_batched, states
        )


def _strong(leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return jax.lax.convert_element_type(leaf, leaf.dtype)


def ended(state: Any) -> tuple[Bool[Array, "*B"], Bool[Array, "*B"] | None]:
    """Reads ``(done, truncated)`` off an environment state.

    ``truncated`` comes from ``info["truncated"]`` or ``info["truncation"]`` and is None where the
    environment has neither; done means either.
    """
    done = state.done.astype(bool)
    info = state.info if isinstance(state.info, Mapping) else {}
    for name in _TRUNCATION_KEYS:
        if name in info:
            truncated = jnp.asarray(info[name]).astype(bool)
            return done | truncated, truncated
    return done, None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ResetPool:
    """Fresh states waiting for episodes to end.

    Attributes:
      states: fresh environment states, leaves (B, ...).
      used: () int32, how many of them are spent.
      key: key of the next refill.
    """

    states: Any
    used: Array
    key: Key[Array, ""]


class EnvResets:
    """Replaces the states of ended episodes by fresh ones; no fresh state is used twice.

    Args:
      batch: the environments.
      mode: "pool": B states are made at once, whenever a step needs more than are left, and
        handed out in turn. "fresh": B states are made in every step in which an episode ends.
    """

    def __init__(self, batch: EnvBatch, mode: Literal["pool", "fresh"]):
        self._batch = batch
        self._mode = mode

    def start(self, states: Any, key: Key[Array, ""]) -> ResetPool:
        """Returns an empty pool; ``states`` lend their shapes only."""
        return ResetPool(states, jnp.int32(self._batch.n_envs), key)

    def __call__(
        self, pool: ResetPool, stepped: Any, done: Bool[Array, "B"]
    ) -> tuple[ResetPool, Any]:
        """Returns the pool that is left and the states in which done rows are fresh."""

        def replace(pool: ResetPool) -> tuple[ResetPool, Any]:
            needed = done.sum(dtype=jnp.int32)
            short = pool.used + needed > self._batch.n_envs
            if self._mode == "fresh":
                short = needed > 0
            pool = jax.lax.cond(
                any_row(short),
                lambda pool: where_met(short, self._refill(pool), pool),
                lambda same: same,
                pool,
            )
            rows = pool.used + jnp.cumsum(done, dtype=jnp.int32) - 1
            fresh = self._batch.take(pool.states, jnp.where(done, rows, 0))
            pool = dataclasses.replace(pool, used=pool.used + needed)
            return pool, self._batch.select(done, fresh, stepped)

        return jax.lax.cond(any_row(done), replace, lambda pool: (pool, stepped), pool)

    def _refill(self, pool: ResetPool) -> ResetPool:
        keys = jax.random.split(pool.key, 1 + self._batch.n_envs)
        fresh = self._batch.adopt(self._batch.reset_each(keys[1:]), pool.states)
        return ResetPool(fresh, jnp.int32(0), keys[0])
