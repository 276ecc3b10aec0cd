"""One custom module for several connections: one call, one set of weights, a carry for each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import Named, PopulationGraph, Unnamed, spec_from_dict
from nnx_graph.testing import LeakyProbe
from nnx_stateful import (
    GRU,
    Dense,
    StatefulModule,
    StatefulModuleOutput,
    extract_activations,
    scan_unroll,
    with_recording,
)
from nnx_stateful.testing import StreamProbe

XS = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
DONE = np.zeros((5, 2), bool)
DONE[2, 1] = True


def fan(transforms, delays=(0, 2, 1.5), **options):
    """Several connections with modules into as many populations, which come together again."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 3, input_from="x")
    graph.add_output("out", 3)
    for number, (transform, delay) in enumerate(zip(transforms, delays, strict=True)):
        graph.add_population(f"p{number}", 4, activation="tanh")
        graph.connect("in", f"p{number}", transform=transform, delay=delay, **options)
        graph.connect(f"p{number}", "out")
    graph.finalize()
    return graph


def unrolled(graph):
    return graph.unroll(graph.initialize_state(2), {"x": jnp.asarray(XS)}, jnp.asarray(DONE))


def same_weights(module):
    return nnx.clone(module)


@pytest.mark.parametrize("make", [Dense, GRU])
def test_one_instance_does_what_equal_copies_do(make):
    module = make(3, 4, nnx.Rngs(1))
    shared = unrolled(fan([module] * 3, (0, 2, 1)))
    apart = unrolled(fan([same_weights(module) for _ in range(3)], (0, 2, 1)))
    np.testing.assert_allclose(shared.output["out"], apart.output["out"], rtol=1e-5, atol=1e-6)


def test_gradients_of_shared_weights_add_up():
    module = Dense(3, 4, nnx.Rngs(1))

    def loss(graph):
        return jnp.sum(unrolled(graph).output["out"] ** 2)

    together = nnx.grad(loss)(fan([module] * 3))
    apart = nnx.grad(loss)(fan([same_weights(module) for _ in range(3)]))
    kernels = [leaf for leaf in jax.tree.leaves(together) if leaf.shape == (3, 4)]
    assert len(kernels) == 1
    each = [leaf for leaf in jax.tree.leaves(apart) if leaf.shape == (3, 4)]
    assert len(each) == 3
    np.testing.assert_allclose(kernels[0], sum(each), rtol=1e-4, atol=1e-6)


class Counted(StatefulModule):
    """Counts how often it is traced."""

    calls = 0

    def __call__(self, state, x, rollout_extras=None):
        type(self).calls += 1
        return StatefulModuleOutput(state, 2 * x, 0.0, {})


def test_shared_instance_is_called_once_for_all_connections():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 3, input_from="x")
    graph.add_output("out", 3, aggregate="max")
    module = Counted()
    for delay in (0, 1, 1.5, [2, 1.5, 0]):  # whatever the number of taps
        graph.connect("in", "out", transform=module, delay=delay)
    graph.finalize()
    Counted.calls = 0
    jax.make_jaxpr(lambda s, x: graph(s, {"x": x}).output)(
        graph.initialize_state(2), jnp.asarray(XS[0])
    )
    assert Counted.calls == 1


def test_shared_instance_with_random_streams_names_the_connections():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 3, input_from="x")
    graph.add_output("out", 3)
    probe = StreamProbe(nnx.Rngs(0))
    for delay in (0, 1.5):
        graph.connect("in", "out", transform=probe, delay=delay)
    with pytest.raises(TypeError, match="RNG streams") as caught:
        graph.finalize()
    assert "'in->out', 'in->out#1' share" in caught.value.__notes__[-1]


def test_each_connection_has_a_carry_and_a_metric_of_its_own():
    graph = fan([LeakyProbe(3, 4)] * 3, (1, 1, 1))
    out = unrolled(graph)
    assert list(out.next_state["transforms"]) == ["in->p0"]
    (carry,) = jax.tree.leaves(out.next_state["transforms"])
    assert carry.shape == (2, 3, 3)  # rows, connections, size
    np.testing.assert_allclose(carry[:, 0], carry[:, 2])
    (level,) = jax.tree.leaves(out.metrics["transforms"])
    assert level.shape == (5, 3)  # steps, connections


def test_unrolling_equals_stepping_with_delays_of_several_kinds():
    graph = fan([GRU(3, 4, nnx.Rngs(1))] * 3)
    stepped = scan_unroll(
        graph, graph.initialize_state(2), {"x": jnp.asarray(XS)}, jnp.asarray(DONE), None
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        unrolled(graph),
        stepped,
    )


def test_lesion_of_one_connection_leaves_the_others():
    graph = fan([Dense(3, 4, nnx.Rngs(1))] * 3, (0, 0, 0))
    cut = graph.lesion("in->p1")
    outputs = [
        extract_activations(
            with_recording(g)(g.initialize_state(2), {"x": jnp.asarray(XS[0])}).metrics
        )
        for g in (graph, cut)
    ]
    for name, changed in (("p0", False), ("p1", True), ("p2", False)):
        before, after = (found[f"populations/{name}"] for found in outputs)
        assert np.allclose(before, after) != changed
    assert not np.any(outputs[1]["populations/p1"])


def test_view_of_any_of_the_connections_gives_the_module():
    module = Dense(3, 4, nnx.Rngs(1))
    graph = fan([module] * 3)
    for number in range(3):
        assert graph.connection("in", f"p{number}").transform is module


def test_declaration_says_which_connections_have_an_instance_in_common():
    module, other = Dense(3, 4, nnx.Rngs(1)), Dense(3, 4, nnx.Rngs(2))
    spec = fan([module, other, module]).spec
    found = [c.transform for c in spec.connections if c.transform]
    assert found == [Unnamed("Dense", 0), Unnamed("Dense"), Unnamed("Dense", 0)]
    given = {"in->p0": module, "in->p1": other, "in->p2": module}
    assert PopulationGraph.from_spec(spec, nnx.Rngs(0), given).spec == spec
    with pytest.raises(
        ValueError, match=r"'in->p2': expected the instance of 'in->p0', .*got another"
    ):
        PopulationGraph.from_spec(spec, nnx.Rngs(0), given | {"in->p2": same_weights(module)})


def test_module_by_name_is_shared_under_a_name_and_written_so():
    graph = fan(["gru"] * 3, (1, 1, 1), share="message")
    shapes = [
        leaf.shape for leaf in jax.tree.leaves(nnx.state(graph.circuit.transforms, nnx.Param))
    ]
    assert len(shapes) == len(set(shapes))  # one GRU
    assert spec_from_dict(graph.to_dict()) == graph.spec
    alone = fan(["gru"] * 3, (1, 1, 1))
    count = len(jax.tree.leaves(nnx.state(alone.circuit.transforms, nnx.Param)))
    assert count == 3 * len(shapes)


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        (["gru", "gru", "lru"], r"\('in', 'p2'\): expected .*gru"),
        (["gru", Named("gru", carry_init=None), "gru"], r"\('in', 'p1'\): expected"),
        ([Dense(3, 4, nnx.Rngs(0))] * 3, "leave share out, and pass the same instance"),
    ],
)
def test_share_of_other_modules_raises(transforms, message):
    with pytest.raises(ValueError, match=message):
        fan(transforms, share="message")


def test_operations_do_not_grow_with_the_connections_that_share():
    def count(n):
        graph = fan([GRU(3, 4, nnx.Rngs(1))] * n, [1 + number % 2 for number in range(n)])
        traced = jax.make_jaxpr(lambda s: graph.unroll(s, {"x": jnp.asarray(XS)}).output)(
            graph.initialize_state(2)
        )
        return sum(line.strip().count(" = ") for line in str(traced).splitlines())

    few, many = count(20), count(200)
    assert many <= few
