"""Programs with the calls of the published tutorial on writing a module of one's own."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo.algorithms.ppo import train_ppo
from nnx_ppo.networks.adapter import PPOAdapter
from nnx_ppo.networks.containers import Sequential
from nnx_ppo.networks.feedforward import Dense
from nnx_ppo.networks.sampling_layers import NormalTanhSampler
from nnx_ppo.networks.types import StatefulModule, StatefulModuleOutput
from nnx_ppo.networks.utils import Flattener
from nnx_stateful.testing import check_stateful_module

from ._reach import Reach
from ._runs import LENGTH, N_ENVS, short_config


class WindowMean(StatefulModule):
    """The mean over a row's last k inputs, slots not yet written counting as zero."""

    def __init__(self, width: int, k: int):
        self.width = width
        self.k = k

    def __call__(self, state, x, rollout_extras=None):
        rows = jnp.arange(state["slot"].shape[0])
        window = state["window"].at[rows, state["slot"]].set(x)
        return StatefulModuleOutput(
            next_state={"window": window, "slot": (state["slot"] + 1) % self.k},
            output=jnp.mean(window, axis=1),
            regularization_loss=jnp.array(0.0),
            metrics={},
            rollout_extras=None,
        )

    def initialize_state(self, batch_size: int):
        return {
            "window": jnp.zeros((batch_size, self.k, self.width)),
            "slot": jnp.zeros(batch_size, jnp.int32),
        }

    def reset_state(self, prev_state):
        return {
            "window": jnp.zeros_like(prev_state["window"]),
            "slot": jnp.zeros_like(prev_state["slot"]),
        }


class Seen(nnx.Variable):
    pass


class CountingWindowMean(WindowMean):
    """The same, which also knows the mean of all inputs that it ever saw."""

    def __init__(self, width: int, k: int):
        super().__init__(width, k)
        self.mean = Seen(jnp.zeros(width))
        self.count = Seen(jnp.zeros((), jnp.int32))

    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x)
        return out.replace(rollout_extras=x)

    def update_statistics(self, rollout_extras):
        samples = rollout_extras.reshape((-1, *rollout_extras.shape[2:]))
        total = self.count[...] + samples.shape[0]
        shift = jnp.mean(samples, axis=0) - self.mean[...]
        self.mean[...] = self.mean[...] + shift * (samples.shape[0] / total)
        self.count[...] = total


class Stack(StatefulModule):
    """Dense layers in an nnx.List, whose number depends on an argument."""

    def __init__(self, sizes, rngs, wrap=nnx.List):
        self.layers = wrap([Dense(a, b, rngs, nnx.swish) for a, b in itertools.pairwise(sizes)])

    def __call__(self, state, x, rollout_extras=None):
        states = []
        for layer, layer_state in zip(self.layers, state, strict=True):
            out = layer(layer_state, x)
            x = out.output
            states.append(out.next_state)
        return StatefulModuleOutput(states, x, jnp.array(0.0), {}, None)

    def initialize_state(self, batch_size):
        return [layer.initialize_state(batch_size) for layer in self.layers]


class TwoDense(StatefulModule):
    def __init__(self, rngs):
        self.first = Dense(8, 16, rngs)
        self.second = Dense(16, 4, rngs)

    def __call__(self, state, x, rollout_extras=None):
        hidden = self.first((), x).output
        return self.second((), hidden)


def window_mean_by_lists(xs, done, k):
    """Independent oracle: one Python list per row."""
    outputs = np.zeros(xs.shape)
    for row in range(xs.shape[1]):
        seen = []
        for t in range(xs.shape[0]):
            seen.append(np.asarray(xs[t, row]))
            outputs[t, row] = sum(seen[-k:]) / k
            if done[t, row]:
                seen = []
    return outputs


@pytest.mark.parametrize("kind", [WindowMean, CountingWindowMean])
def test_window_mean_stepped_and_unrolled_equals_lists(kind):
    xs = jax.random.normal(jax.random.key(0), (7, 3, 2))
    done = jax.random.bernoulli(jax.random.key(1), 0.3, (7, 3))
    module = kind(2, 3)
    expected = window_mean_by_lists(xs, done, 3)
    out = module.unroll(module.initialize_state(3), xs, done)
    np.testing.assert_allclose(out.output, expected, atol=1e-6)
    state = module.initialize_state(3)
    for t in range(7):
        stepped = module(state, xs[t])
        np.testing.assert_allclose(stepped.output, expected[t], atol=1e-6)
        fresh = jax.vmap(module.reset_state)(stepped.next_state)
        keep = done[t]
        state = jax.tree.map(
            lambda new, old, keep=keep: jnp.where(
                keep.reshape((3,) + (1,) * (old.ndim - 1)), new, old
            ),
            fresh,
            stepped.next_state,
        )


@pytest.mark.parametrize(
    ("module", "width"),
    [
        (WindowMean(2, 3), 2),
        (CountingWindowMean(2, 3), 2),
        (Stack([3, 8, 2], nnx.Rngs(0)), 3),
        (TwoDense(nnx.Rngs(0)), 8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_custom_module_obeys_the_laws(module, width):
    check_stateful_module(module, jnp.linspace(-1.0, 1.0, 4 * width).reshape(4, width))


def test_statistics_of_two_rollouts_equal_the_mean_of_all_inputs():
    module = CountingWindowMean(2, 3)
    xs = jax.random.normal(jax.random.key(0), (2, 5, 3, 2))
    for rollout in xs:
        extras = module.unroll(module.initialize_state(3), rollout).rollout_extras
        module.update_statistics(extras)
    assert int(module.count[...]) == 2 * 5 * 3
    np.testing.assert_allclose(module.mean[...], xs.mean((0, 1, 2)), atol=1e-6)


def test_stack_trains_every_layer():
    parameters = jax.tree.leaves(nnx.state(Stack([3, 8, 8, 2], nnx.Rngs(0)), nnx.Param))
    assert len(parameters) == 6


@pytest.mark.parametrize("wrap", [list, tuple])
def test_stack_in_a_plain_collection_is_refused(wrap):
    with pytest.raises(TypeError, match=r"Stack\.layers is a plain .*nnx\.List"):
        Stack([3, 8, 2], nnx.Rngs(0), wrap)


def test_custom_module_trains_in_place():
    rngs = nnx.Rngs(0)
    memory = CountingWindowMean(8, 3)
    nets = Sequential(
        [
            Flattener(),
            memory,
            PPOAdapter(
                action=Sequential([Stack([8, 16, 4], rngs), NormalTanhSampler(rngs, 1e-2)]),
                value=Dense(8, 1, rngs),
            ),
        ]
    )
    result = train_ppo(Reach(), nets, short_config(iterations=3))
    assert result.total_iterations == 3
    assert int(memory.count[...]) == 3 * N_ENVS * LENGTH
    assert np.isfinite(result.final_metrics["losses/total"])


def test_eval_and_train_switch_the_sampler():
    rngs = nnx.Rngs(0)
    nets = PPOAdapter(
        action=Sequential([Dense(3, 4, rngs), NormalTanhSampler(rngs, 1e-2)]),
        value=Dense(3, 1, rngs),
    )
    state, x = nets.initialize_state(2), jnp.ones((2, 3))
    sampled = nets(state, x).output.actions
    nets.eval()
    mode = nets(state, x).output.actions
    np.testing.assert_allclose(mode[0], mode[1], atol=1e-6)  # same input, no noise
    nets.train()
    np.testing.assert_array_equal(nets(state, x).output.actions, sampled)
    assert not np.allclose(sampled, mode)
