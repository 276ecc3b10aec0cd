"""One training run of `returns_vs_nnx_ppo.py` with nnx-ppo; prints its result as JSON.

Runs in the environment of that peer. It has no sampler of choices, so one is written here against
its public base class. Its LSTM is made with `use_optimized=False`: the default draws the recurrent
weights as one orthogonal (H, 4 H) matrix, at half the scale of four orthogonal (H, H) ones, and so
would start from another network than ours.
"""

import functools
import json
import sys
import time
import types

import jax
import jax.numpy as jnp
from _evaluation import network_return
from _return_tasks import TASKS
from flax import nnx
from nnx_ppo.algorithms.config import EvalConfig, PPOConfig, TrainConfig
from nnx_ppo.algorithms.ppo import train_ppo
from nnx_ppo.networks.adapter import PPOAdapter
from nnx_ppo.networks.containers import Parallel, Sequential
from nnx_ppo.networks.feedforward import Dense
from nnx_ppo.networks.normalizer import Normalizer
from nnx_ppo.networks.recurrent import LSTM
from nnx_ppo.networks.sampling_layers import ActionSampler, NormalTanhSampler
from nnx_ppo.networks.types import StatefulModuleOutput
from nnx_ppo.networks.utils import Flattener


class CategoricalSampler(ActionSampler):
    """Draws a choice from logits (B, N); the entropy is exact."""

    def __init__(self, rngs: nnx.Rngs, entropy_weight: float):
        self.rngs = rngs
        self.entropy_weight = entropy_weight
        self.deterministic = False

    def __call__(self, state, logits, rollout_extras=None):
        if rollout_extras is not None:
            action = rollout_extras
        elif self.deterministic:
            action = jnp.argmax(logits, axis=-1)
        else:
            action = jax.random.categorical(self.rngs(), logits)
        log_probs = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(log_probs, action[:, None], axis=-1)[:, 0]
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1)
        return StatefulModuleOutput(
            next_state=(),
            output={"action": action, "log_likelihood": chosen},
            regularization_loss=-self.entropy_weight * entropy,
            metrics={},
            rollout_extras=action,
        )


PARTS = types.SimpleNamespace(
    CategoricalSampler=CategoricalSampler,
    Dense=Dense,
    Flattener=Flattener,
    LSTM=functools.partial(LSTM, use_optimized=False),
    NormalTanhSampler=NormalTanhSampler,
    Normalizer=Normalizer,
    PPOAdapter=PPOAdapter,
    Parallel=Parallel,
    Sequential=Sequential,
)


def main(task: str, seed: int, n_steps: int | None) -> dict[str, float]:
    spec = TASKS[task]
    network = spec.network(PARTS, spec.env, nnx.Rngs(seed))
    config = TrainConfig(
        ppo=PPOConfig(**spec.ppo(n_steps)), eval=EvalConfig(enabled=False), seed=seed
    )
    started = time.perf_counter()
    acting = train_ppo(spec.env, network, config).training_state.networks
    seconds = time.perf_counter() - started
    acting.eval()
    return {"return": network_return(acting, spec.evaluated), "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
