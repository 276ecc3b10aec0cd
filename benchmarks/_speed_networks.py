"""The networks of `speed_vs_nnx_ppo.py` and their environment, written once for both libraries."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from nnx_ppo_train.envs import CartPole

MAX_DELAY = 3


class NamedCartPole(CartPole):
    """The cart-pole with one entry in dicts: observation `x`, `action_params`, reward `value`."""

    @property
    def observation_size(self) -> Any:
        return {"x": super().observation_size}

    def reset(self, rng: Any) -> Any:
        return _named(super().reset(rng))

    def step(self, state: Any, action: Any) -> Any:
        bare = state.replace(obs=state.obs["x"], reward=state.reward["value"])
        return _named(super().step(bare, jax.tree.leaves(action)[0]))


def _named(state: Any) -> Any:
    return state.replace(obs={"x": state.obs}, reward={"value": state.reward})


@dataclasses.dataclass(frozen=True)
class Speed:
    """What is timed.

    Attributes:
        network: `(parts, rngs) -> network`, where `parts` has either library's classes.
        n_envs: Environments in parallel.
        rollout_length: Steps of a rollout.
        is_graph: Whether observation and action are dicts.
    """

    network: Callable[[Any, nnx.Rngs], Any]
    n_envs: int = 512
    rollout_length: int = 32
    is_graph: bool = False

    @property
    def env(self) -> Any:
        """The environment, classic and without wind: its cost is that of a few sines."""
        return NamedCartPole(gust=0.0) if self.is_graph else CartPole(gust=0.0)

    def ppo(self) -> dict[str, Any]:
        """Fields of `PPOConfig` of both libraries."""
        return {
            "n_envs": self.n_envs,
            "rollout_length": self.rollout_length,
            "n_epochs": 4,
            "n_minibatches": 4,
            "learning_rate": 3e-4,
            "total_steps": 10**9,
            "combine_advantages": self.is_graph,  # one reward, one action, under other names
        }


OBS = CartPole().observation_size
ACTIONS = CartPole().action_size


def mlp(width: int) -> Callable[[Any, nnx.Rngs], Any]:
    """Normaliser, two hidden layers of that width, actor and critic apart."""

    def build(parts: Any, rngs: nnx.Rngs) -> Any:
        def hidden() -> list[Any]:
            sizes = [(OBS, width), (width, width)]
            return [parts.Dense(*size, rngs, activation=nnx.swish) for size in sizes]

        sampler = parts.NormalTanhSampler(rngs, entropy_weight=1e-2)
        action = parts.Sequential([*hidden(), parts.Dense(width, 2 * ACTIONS, rngs), sampler])
        value = parts.Sequential([*hidden(), parts.Dense(width, 1, rngs)])
        return parts.Sequential([parts.Normalizer(OBS), parts.PPOAdapter(action, value)])

    return build


def recurrent(layer: str, width: int) -> Callable[[Any, nnx.Rngs], Any]:
    """Normaliser, dense, recurrent and dense layer of that width, shared by actor and critic."""

    def build(parts: Any, rngs: nnx.Rngs) -> Any:
        sampler = parts.NormalTanhSampler(rngs, entropy_weight=1e-2)
        action = parts.Sequential([parts.Dense(width, 2 * ACTIONS, rngs), sampler])
        return parts.Sequential(
            [
                parts.Normalizer(OBS),
                parts.Dense(OBS, width, rngs, activation=nnx.swish),
                getattr(parts, layer)(width, width, rngs),
                parts.Dense(width, width, rngs, activation=nnx.swish),
                parts.PPOAdapter(action, parts.Dense(width, 1, rngs)),
            ]
        )

    return build


def small_graph(parts: Any, rngs: nnx.Rngs) -> Any:
    """An input, a population of 32 with a connection to itself after a step, two read-outs."""
    graph = parts.PopulationGraph(rngs)
    graph.add_input("in_x", OBS, input_from="x")
    graph.add_population("hidden", 32, activation=nnx.swish)
    graph.connect("in_x", "hidden")
    graph.connect("hidden", "hidden", delay=1)
    return _with_heads(parts, graph, "hidden", rngs)


def star(n_populations: int, size: int = 16, delays: tuple[int, ...] = (1, 2, 3)) -> Any:
    """Populations around a root of 64, connected with it both ways, delays taken in turn."""

    def build(parts: Any, rngs: nnx.Rngs) -> Any:
        graph = parts.PopulationGraph(rngs)
        graph.add_input("in_x", OBS, input_from="x")
        graph.add_population("root", 64, activation=nnx.swish)
        graph.connect("in_x", "root")
        for index in range(n_populations):
            graph.add_population(f"body_{index}", size, activation=nnx.swish)
            delay = delays[index % len(delays)]
            graph.connect("root", f"body_{index}", delay=delay, reciprocal=True)
        return _with_heads(parts, graph, "root", rngs)

    return build


def _with_heads(parts: Any, graph: Any, source: str, rngs: nnx.Rngs) -> Any:
    for name, size in (("action_params", 2 * ACTIONS), ("value", 1)):
        graph.add_output(name, size)
        graph.connect(source, name)
    graph.finalize()
    sampler = parts.NormalTanhSampler(rngs, entropy_weight=1e-2)
    adapter = parts.PPOAdapter(
        action=parts.Map({"action_params": sampler}), value=parts.Filter({"value": "value"})
    )
    return parts.Sequential([parts.Normalizer({"x": OBS}), graph, adapter])


NETWORKS: dict[str, Speed] = {
    "mlp-64": Speed(mlp(64)),
    "mlp-256": Speed(mlp(256)),
    "lstm-128": Speed(recurrent("LSTM", 128)),
    "small-graph": Speed(small_graph, is_graph=True),
    "20-populations": Speed(star(20), is_graph=True),
    "100-populations": Speed(star(100), n_envs=128, rollout_length=16, is_graph=True),
}
