"""Trains with Brax for `time_to_return_vs_brax.py`, in the environment of that peer.

Brax 0.14.2 calls `jax.device_put_replicated`, which JAX 0.10 no longer has; a stand-in for it is
put there. It is called once, before training.
"""

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _time_to_return import (
    CLIP,
    GAE_LAMBDA,
    POLICY_LAYERS,
    VALUE_LAYERS,
    VALUE_WEIGHT,
    Curve,
    Reached,
    load_env,
    make_run,
)
from brax.training.agents.ppo import networks, train
from mujoco_playground import wrapper


def put_replicated(tree: Any, devices: Sequence[Any]) -> Any:
    """A copy of every leaf on each device, along a new leading axis."""
    mesh = jax.sharding.Mesh(np.array(devices), "devices")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))

    def put(leaf: Any) -> jax.Array:
        leaf = jnp.asarray(leaf)
        return jax.device_put(jnp.broadcast_to(leaf, (len(devices), *leaf.shape)), sharding)

    return jax.tree.map(put, tree)


def main(seed: int, **arguments: Any) -> dict[str, Any]:
    jax.config.update("jax_enable_compilation_cache", False)
    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = put_replicated
    run = make_run(**arguments)
    settings = dict(run.settings)
    settings |= {
        "num_timesteps": run.n_evaluations * run.every,
        "num_evals": run.n_evaluations + 1,
        "num_resets_per_eval": 1,
    }

    def make_networks(*args: Any, **kwargs: Any) -> networks.PPONetworks:
        return networks.make_ppo_networks(
            *args,
            **kwargs,
            policy_hidden_layer_sizes=POLICY_LAYERS,
            value_hidden_layer_sizes=VALUE_LAYERS,
        )

    policies = []

    def act(params: Any, carry: Any, obs: Any) -> tuple[Any, Any]:
        return carry, policies[0](params, deterministic=True)(obs, jax.random.key(0))[0]

    env = load_env()
    curve = Curve(run, act, ())

    def evaluate(steps: int, make_policy: Any, params: Any) -> None:
        policies.append(make_policy)
        curve.add(steps, params)

    with contextlib.suppress(Reached):
        train.train(
            environment=env,
            **settings,
            gae_lambda=GAE_LAMBDA,
            clipping_epsilon=CLIP,
            vf_loss_coefficient=VALUE_WEIGHT,
            network_factory=make_networks,
            wrap_env_fn=wrapper.wrap_for_brax_training,
            policy_params_fn=evaluate,
            run_evals=False,
            num_eval_envs=1,
            seed=seed,
        )
    return curve.result()


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
