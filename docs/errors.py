"""The page of errors: calls that fail, and what they say.

    uv run python docs/errors.py

runs every call below and writes docs/errors.md.
"""

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import nnx_graph
import nnx_ppo.algorithms.config
import nnx_ppo.algorithms.ppo
import nnx_ppo.networks.factories
import nnx_ppo.wrappers.episode_wrapper
import nnx_ppo_train
import nnx_stateful
from flax import nnx
from nnx_ppo_train import presets
from nnx_ppo_train.cli import main as command_line

PAGE = Path(__file__).with_name("errors.md")
HEAD = """# Errors

Errors say where, what was expected, what there was, and what to do. A wrong kind of value is a
`TypeError`, a wrong value a `ValueError`, a file that is not there a `FileNotFoundError`; a run
that is not finite any more ends with `NonFiniteError`. The command line prints one line and ends
with 2. Tests throw thousands of random bad values at every public function, and accept no other
kind of error.

These are examples. `env` is a cart-pole, `net` a network for it, `graph` a population graph with
the input `eye` and the output `out`; `FOLDER` stands for the current folder. The page is made by
`uv run python docs/errors.py`.
"""

STATEFUL = """
Dense(0, 4, rngs) | no features
Dense(3, 4, rngs)((), jnp.ones((2, 5))) | an input of another width
Dense(3, 4, None) | no source of keys
Sequential([]) | no modules
Map(eye=Dense(3, 4, rngs))({"eye": ()}, {"ear": jnp.ones((2, 3))}) | an entry that is not there
Delay(jnp.zeros(3), -1) | a negative delay
Normalizer({"eye": 3})((), {"ear": jnp.ones((2, 3))}) | an entry that is not there
make_mlp([], rngs) | no widths
LIF(3, rngs, time_constant=-1.0) | a negative time constant
"""
GRAPH = """
PopulationGraph(0) | no source of keys
new_graph().add_population("eye", 2) | a name that is taken
new_graph().add_population("leg", 0) | no neurons
new_graph().add_population("leg", 2, activation="tahn") | an activation with a typo
new_graph().connect("eye", "ear") | a population that is not there
new_graph().connect("eye", "out", delay=-1) | a negative delay
PopulationGraph.from_spec(GraphSpec((Population(name="leg", size=2.5),), ()), rngs) | half a neuron
LearnableDelay(3, 1) | bounds in the wrong order
spec_from_json("{}") | JSON that is no graph
spec_from_edges([("a", "b")], sizes=0) | no neurons
"""
TRAIN = """
PPOConfig(n_envs=10, n_minibatches=4) | minibatches that do not divide the environments
PPOConfig(learning_rate=1e39) | a number that float32 cannot hold
PPOConfig(gae_lambda="0.9") | text
TrainConfig(ppo={"n_envs": 8}) | a dict for a config
EvalConfig(n_envs=0) | no environments
VideoConfig(render_kwargs=None) | no dict
RolloutOptions(truncation="cut") | an unknown name
ScaleLearningRate(0.0) | a factor of 0
stop_at_return(float("nan")) | NaN
make_env("cartpol") | a typo
make_env("cartpole", lag=3) | an unknown option
check_env(object()) | no environment
check_boundary(env, Dense(3, 4, rngs), 8, False) | a network for other observations
EpisodeWrapper(env, 0) | no steps
RewardScalingWrapper(env, 0.0) | a factor of 0
NormalSampler(rngs, entropy_weight=-1.0) | a negative weight
CategoricalSampler(rngs)((), jnp.ones((2, 3))) | no state
MultiCategoricalSampler((), rngs) | no choices
PPOAdapter(Dense(3, 4, rngs), Dense(3, 1, rngs), joint="yes") | text
RewardNormalizer(jnp.zeros(()), 1.5) | a discount above 1
gae(*[jnp.ones((3, 2))] * 2, jnp.ones(2), jnp.ones((3, 2)), discount=0.9, lambda_=1.0) | a shape
ppo_loss(net, (), None, PPOConfig()) | no rollout
unroll_env(env, None, net, (), 5, jax.random.key(0)) | no states
eval_rollout(env, net, 8, 100, 0) | a seed for a key
record_episode(env, nnx.Linear(2, 2, rngs=rngs), 5, jax.random.key(0)) | a plain NNX layer
verify_replay(env, net, rollout_length=1) | a single step
deterministic(None) | no network
freeze(net, "decoder") | a pattern that matches nothing
parameter_paths(None) | no network
presets.make_network("transformer", env, rngs) | an unknown name
presets.NetworkOptions(hidden_size=0) | no neurons
train_ppo(env, net, PPOConfig()) | another kind of config
train_ppo(env, net, total_steps=0) | no steps
train_ppo_many(make_env, presets.make_network, seeds=3) | a number for a list
save_checkpoint("saved", None) | no training state
load_checkpoint("zzz", net, env) | a path with nothing there
load_network(".", net) | a folder that is no checkpoint
load_config("zzz") | a path with nothing there
latest_checkpoint(".") | a folder without checkpoints
best_checkpoint(".") | a folder without checkpoints
make_checkpoint_fn("saved", keep=0) | nothing to keep
init_from("zzz", net) | a path with nothing there
JSONLinesLogger("log.jsonl", start_step=-1) | a negative step
"""
COMPAT = """
nnx_ppo.algorithms.config.PPOConfig(weight_decay=-1.0) | a negative weight decay
nnx_ppo.networks.factories.make_mlp_actor_critic(3, 0, [8], [8], rngs) | no actions
nnx_ppo.wrappers.episode_wrapper.EpisodeWrapper(env, 0) | no steps
nnx_ppo.algorithms.ppo.gae(*[jnp.ones((3, 2))] * 2, *[jnp.ones(2)] * 2, None, 1.0, 0.9) | a shape
"""
COMMANDS = """
train --env cartpol | a typo
train --seed 4294967296 | a seed that JAX would take for 0
train --env cartpole:x --network mlp | code that is not there
train --seeds 0 | no seeds
eval zzz | a run that is not there
resume zzz | a run that is not there
"""
PACKAGES = {
    "nnx_stateful": STATEFUL,
    "nnx_graph": GRAPH,
    "nnx_ppo_train": TRAIN,
    "nnx_ppo (compatibility)": COMPAT,
}


def new_graph() -> nnx_graph.PopulationGraph:
    """A graph under construction, with an input and an output."""
    graph = nnx_graph.PopulationGraph(nnx.Rngs(0))
    graph.add_input("eye", 2, input_from="eye")
    graph.add_output("out", 1, output_to="out")
    return graph


def names() -> dict[str, Any]:
    """What the calls may name."""
    env = nnx_ppo_train.make_env("cartpole")
    found = {
        name: getattr(module, name)
        for module in (nnx_graph, nnx_ppo_train)
        for name in module.__all__
    }
    found |= {name: getattr(nnx_stateful, name) for name in nnx_stateful.__all__}  # their own Delay
    rngs = nnx.Rngs(0)
    net = presets.make_network("mlp", env, rngs)
    return {
        **found, "env": env, "net": net, "rngs": rngs, "presets": presets, "nnx": nnx, "jax": jax,
        "jnp": jnp, "nnx_ppo": nnx_ppo, "new_graph": new_graph,
    }  # fmt: skip


def outcome(call: str, known: dict[str, Any]) -> tuple[str, str]:
    """The kind of error that a call raises, and its message."""
    try:
        eval(call, dict(known))
    except Exception as error:
        message = error.args[0] if isinstance(error, KeyError) else error
        return type(error).__name__, " ".join(str(message).split())
    raise AssertionError(f"no error: {call}")


def said(words: str) -> tuple[str, str]:
    """How the command line ends, and what it prints."""
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        code = command_line(words.split())
    if not code:
        raise AssertionError(f"no error: {words}")
    return f"exit {code}", " ".join(stderr.getvalue().split())


def rows(table: str) -> Iterator[tuple[str, str]]:
    """The calls of a table, and what is wrong with them."""
    for line in table.strip().splitlines():
        call, _, wrong = line.rpartition(" | ")
        yield call, wrong


def page() -> str:
    """The text of the page."""
    known, parts = names(), [HEAD]
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            here = os.getcwd()
            for title, table in PACKAGES.items():
                found = [(call, wrong, *outcome(call, known)) for call, wrong in rows(table)]
                parts.append(section(title, found))
            found = [(f"nnx-ppo {words}", wrong, *said(words)) for words, wrong in rows(COMMANDS)]
            parts.append(section("Command line", found))
        finally:
            os.chdir(before)
    return "\n".join(parts).replace(here, "FOLDER")


def section(title: str, found: list[tuple[str, str, str, str]]) -> str:
    """A heading and a table."""
    lines = [f"## {title}", "", "| Call | What is wrong | Error | Message |", "|---|---|---|---|"]
    for call, wrong, kind, message in found:
        cells = (f"`{call}`", wrong, f"`{kind}`", f"`{message}`")
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
