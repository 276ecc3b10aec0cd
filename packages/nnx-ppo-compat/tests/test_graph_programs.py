"""Programs with the calls of the published tutorial on graph networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo.algorithms.ppo import train_ppo
from nnx_ppo.algorithms.types import LoggingLevel
from nnx_ppo.networks.adapter import PPOAdapter
from nnx_ppo.networks.containers import Sequential
from nnx_ppo.networks.graph import PopulationGraph
from nnx_ppo.networks.normalizer import Normalizer
from nnx_ppo.networks.sampling_layers import NormalTanhSampler
from nnx_ppo.networks.utils import Filter, Map
from nnx_ppo.wrappers.episode_wrapper import EpisodeWrapper
from nnx_ppo_train import make_env

from ._reach import Reach
from ._runs import LENGTH, N_ENVS, short_config

FEATURES, UNITS, ACTIONS = 8, 16, 2


def recurrent_graph(rngs: nnx.Rngs) -> PopulationGraph:
    """One input, one population that hears itself one step late, two read-outs."""
    g = PopulationGraph(rngs)
    g.add_input("sense", size=FEATURES, input_from="x")
    g.add_population("core", size=UNITS, activation=nnx.swish)
    g.connect("sense", "core")
    g.connect("core", "core", delay=1)
    g.add_output("action_params", size=2 * ACTIONS)
    g.connect("core", "action_params")
    g.add_output("value", size=1)
    g.connect("core", "value")
    g.finalize()
    return g


def recurrent_nets(rngs: nnx.Rngs) -> Sequential:
    return Sequential(
        [
            Normalizer({"x": FEATURES}),
            recurrent_graph(rngs),
            PPOAdapter(
                action=Map({"action_params": NormalTanhSampler(rngs, entropy_weight=1e-2)}),
                value=Filter({"value": "value"}),
            ),
        ]
    )


def test_graph_output_has_an_entry_per_output():
    g = recurrent_graph(nnx.Rngs(0))
    out = g(g.initialize_state(3), {"x": jnp.ones((3, FEATURES))})
    shapes = {name: leaf.shape for name, leaf in out.output.items()}
    assert shapes == {"action_params": (3, 2 * ACTIONS), "value": (3, 1)}


def test_network_output_has_one_named_action():
    nets = recurrent_nets(nnx.Rngs(0))
    out = nets(nets.initialize_state(3), {"x": jnp.ones((3, FEATURES))}).output
    assert {name: leaf.shape for name, leaf in out.actions.items()} == {
        "action_params": (3, ACTIONS)
    }
    assert out.loglikelihoods["action_params"].shape == (3,)
    assert out.value_estimates["value"].shape == (3,)


def test_worked_graph_trains_on_an_environment_with_bare_actions():
    nets = recurrent_nets(nnx.Rngs(0))
    before = jax.tree.map(jnp.copy, nnx.state(nets, nnx.Param))
    logged = []
    result = train_ppo(
        EpisodeWrapper(Reach(), 5),
        nets,
        short_config(3, logging_level=LoggingLevel.LOSSES | LoggingLevel.NETWORK_METRICS),
        log_fn=lambda metrics, steps: logged.append((steps, metrics)),
    )
    assert result.total_steps == 3 * N_ENVS * LENGTH
    assert nets[0].sample_count == result.total_steps
    assert logged[-1][0] == result.total_steps
    for _, metrics in logged[1:]:
        assert metrics["replay/ratio_max_deviation"] < 1e-4
        assert np.isfinite(metrics["losses/total"])
        assert metrics["net/2/action/action_params/sigma/mean"] > 0
    changed = jax.tree.map(
        lambda old, new: bool(jnp.any(old != new)), before, nnx.state(nets, nnx.Param)
    )
    assert all(jax.tree.leaves(changed))
    assert [entry["step"] for entry in result.eval_history] == [0, result.total_steps]
    assert result.eval_history[-1]["eval/lifespan/mean"] == 5.0


def test_cycle_without_delay_is_refused():
    g = PopulationGraph(nnx.Rngs(0))
    g.add_input("sense", size=4, input_from="x")
    g.add_population("core", size=4)
    g.add_output("out", size=4)
    g.connect("sense", "core")
    g.connect("core", "core")
    g.connect("core", "out")
    with pytest.raises(ValueError, match="core -> core"):
        g.finalize()


BODIES = ("body_0", "body_1")


def body_nets(rngs: nnx.Rngs) -> Sequential:
    """One population per body, each in touch with a root, and heads of its own."""
    g = PopulationGraph(rngs)
    g.add_population("root", size=8, activation=nnx.tanh)
    for body in BODIES:
        g.add_input(body, size=3, input_from=body, activation=nnx.tanh)
        g.connect(body, "root", delay=1, reciprocal=True)
        g.add_output(f"{body}_action", size=2, output_to=body)
        g.connect(body, f"{body}_action")
        g.add_output(f"{body}_value", size=1)
        g.connect(body, f"{body}_value")
        g.connect("root", f"{body}_value")
    g.finalize()
    samplers = {body: NormalTanhSampler(rngs, entropy_weight=1e-3) for body in BODIES}
    return Sequential(
        [
            Normalizer(dict.fromkeys(BODIES, 3)),
            g,
            PPOAdapter(
                action=Map(samplers), value=Filter({body: f"{body}_value" for body in BODIES})
            ),
        ]
    )


def test_body_graph_hears_its_neighbour_two_steps_later():
    nets = body_nets(nnx.Rngs(0))
    nets.eval()
    still = {body: jnp.zeros((6, 1, 3)) for body in BODIES}
    poked = {**still, "body_1": still["body_1"].at[0].set(5.0)}
    answers = [
        nets.unroll(nets.initialize_state(1), xs).output.actions["body_0"][:, 0, 0]
        for xs in (still, poked)
    ]
    felt = np.asarray(answers[0] != answers[1])
    assert not felt[:2].any()
    assert felt[2]


def test_body_graph_trains_one_action_and_one_reward_per_body():
    nets = body_nets(nnx.Rngs(0))
    env = make_env("body-chain", n_bodies=2, episode_length=5)
    result = train_ppo(env, nets, short_config(2))
    assert result.total_iterations == 2
    for body in BODIES:
        assert np.isfinite(result.final_metrics[f"losses/actor/{body}"])
        assert np.isfinite(result.final_metrics[f"losses/critic/{body}"])
