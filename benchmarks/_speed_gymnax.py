"""What `speed_vs_rejax.py` and `speed_vs_memorax.py` time: sizes and settings for both sides."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A network and how it is trained on gymnax's CartPole-v1.

    Attributes:
        network: "mlp": two layers of `width`; "lstm" or "gru": a dense layer and a cell of `width`.
            Actor and critic are separate networks.
        width: Of every hidden layer.
        activation: Name of the function after dense layers in `flax.nnx` and `flax.linen`.
        n_envs: Environments in parallel.
        rollout_length: Steps of a rollout.
        n_epochs: Passes over a rollout.
        n_minibatches: Gradient steps of a pass.
        learning_rate: Of Adam.
        gradient_clipping: Limit of the gradient, or None.
        chunk: Iterations from one reading of the clock to the next.
    """

    network: str
    width: int
    activation: str = "swish"
    n_envs: int = 512
    rollout_length: int = 32
    n_epochs: int = 4
    n_minibatches: int = 4
    learning_rate: float = 3e-4
    gradient_clipping: float | None = None
    chunk: int = 1

    @property
    def steps(self) -> int:
        """Environment steps of a chunk."""
        return self.chunk * self.n_envs * self.rollout_length


DISCOUNT, GAE_LAMBDA, CLIP = 0.99, 0.95, 0.2
ENTROPY_WEIGHT = 1e-2

REJAX_TASKS: dict[str, Task] = {
    "recommended": Task(
        network="mlp",
        width=64,
        activation="tanh",
        n_envs=5,
        rollout_length=100,
        n_epochs=5,
        n_minibatches=5,
        learning_rate=7.5e-4,
        gradient_clipping=0.5,
        chunk=50,
    ),
    "default": Task(
        network="mlp", width=64, n_envs=64, rollout_length=64, n_epochs=8, n_minibatches=16, chunk=4
    ),
    "512 envs": Task(network="mlp", width=64, chunk=2),
}
"""Rejax's configuration for CartPole-v1, the defaults of its PPO, and more environments."""

MEMORAX_TASKS: dict[str, Task] = {
    "lstm-128": Task(network="lstm", width=128),
    "gru-128": Task(network="gru", width=128),
}
"""Recurrent actor and critic, each a network of its own, as memorax has them."""


def every(n: int, tell: Callable[[], None]) -> Callable[[Any, int], None]:
    """A `log_fn` that tells of every n-th iteration."""
    count = 0

    def log_fn(metrics: Any, steps: int) -> None:
        nonlocal count
        del metrics, steps
        count += 1
        if count % n == 0:
            tell()

    return log_fn
