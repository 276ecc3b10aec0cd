"""What tests of the command line share: tiny runs, code of a user's own, child processes."""

import contextlib
import os
import subprocess
import sys
import time

ITERATION = 16
TINY = [
    "--ppo.n-envs", "4", "--ppo.rollout-length", "4", "--ppo.n-minibatches", "2",
    "--ppo.n-epochs", "1", "--eval.n-envs", "2", "--eval.max-episode-length", "8",
    "--eval.every-steps", "32", "--checkpoint-every-steps", "16",
    "--ppo.learning-rate-schedule", "constant",  # so that all lengths share a compiled program
]  # fmt: skip
GRAPH = ["train", "--env", "cartpole", "--network", "graph", "--net.hidden-size", "4", *TINY]
FINISHED = [*GRAPH, "--total-steps", "64", "--seed", "5"]
"""The run of the fixture ``finished``, but for its folder."""

OWN_CODE = """
from nnx_ppo_train.envs import CartPole
from nnx_ppo_train.presets import make_mlp_actor_critic
from nnx_ppo_train.wrappers import EpisodeWrapper


class Undrawable(CartPole):
    draw = None


def make_env():
    return CartPole(episode_length=5)


def make_undrawable():
    return Undrawable(episode_length=5)


def make_network(env, rngs):
    sizes = {"actor_hidden_sizes": (4,), "critic_hidden_sizes": (4,)}
    return make_mlp_actor_critic(env.observation_size, env.action_size, rngs, **sizes)


def make_wrong_network(env, rngs):
    return make_mlp_actor_critic(env.observation_size, env.action_size + 1, rngs)


def make_nothing(env, rngs):
    return None


def make_wrapped():
    return EpisodeWrapper(Undrawable(), 5)


def make_env_of(length):
    return CartPole(episode_length=length)


number = 3
"""


def check_usage_error(capsys, words, *parts):
    """Runs a command that must end with 2, one line, and no traceback."""
    from nnx_ppo_train.cli import main  # here: conftest imports this file for every test

    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("nnx-ppo: ")
    assert error.count("\n") == 1
    for part in parts:
        assert part in error


@contextlib.contextmanager
def child(words, **options):
    """A process of ``nnx-ppo`` that compiles quickly; it is killed at the end, if it is alive."""
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    env = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"} | options.pop("env", {})
    command = [sys.executable, "-m", "nnx_ppo_train.cli", *words]
    with subprocess.Popen(command, env=env, **(usual | options)) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(ready, process):
    """Waits until a child process has come so far."""
    deadline = time.monotonic() + 240
    while not ready():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "training has not begun"
        time.sleep(0.1)
