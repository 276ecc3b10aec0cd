"""Bad declarations and bad input: each says what was expected, what came, and what to do."""

import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_graph import Named, PopulationGraph
from nnx_stateful import Apply, Dense, StatefulModule, StatefulModuleOutput


@pytest.fixture
def graph():
    """Two populations, not connected, and one output."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("hand", 3, input_from="touch")
    graph.add_population("arm", 2)
    graph.add_output("motor", 2)
    return graph


def finalized():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 3, input_from="x")
    graph.add_output("b", 2)
    graph.connect("a", "b", delay=1)
    graph.finalize()
    return graph


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (
            lambda g: g.add_population("arm", 1),
            ValueError,
            r"new population name, got 'arm', which exists",
        ),
        (lambda g: g.add_population(7, 1), TypeError, r"type str, got 7 of type int; use '7'"),
        (lambda g: g.add_population("", 1), ValueError, r"at least one character, got ''"),
        (
            lambda g: g.add_population("a->b", 1),
            ValueError,
            r"without '->'.*got 'a->b'; use another",
        ),
        (
            lambda g: g.add_population("x", 0),
            ValueError,
            r"size of 'x': expected at least 1, got 0",
        ),
        (lambda g: g.add_population("x", 2.0), TypeError, r"size of 'x': expected an int, got 2.0"),
        (
            lambda g: g.add_population("x", True),
            TypeError,
            r"size of 'x': expected an int, got True",
        ),
        (
            lambda g: g.add_population("x", 1, activation=3),
            TypeError,
            r"activation of 'x': expected a function, its name, or None, got 3.*example jnp.tanh",
        ),
        (
            lambda g: g.add_population("x", 1, activation="tahn"),
            ValueError,
            r"activation of 'x': expected the name of an activation, got 'tahn'; did you mean.*"
            r"'tanh'.*register_activation",
        ),
        (
            lambda g: g.add_population("x", 1, compute="lsmt"),
            ValueError,
            r"compute of 'x': expected the name of a module, got 'lsmt'; did you mean 'lstm'\?.*"
            r"register_module",
        ),
        (
            lambda g: g.connect("hand", "arm", transform=Named("dens", use_bias=False)),
            ValueError,
            r"transform of 'hand' to 'arm': expected the name of a module, got 'dens'; did you",
        ),
        (
            lambda g: g.add_population("x", 1, activation=Dense(1, 1, nnx.Rngs(0))),
            TypeError,
            r"activation of 'x': expected a pure function, got the module Dense.*as compute=",
        ),
        (
            lambda g: g.add_population("x", 1, compute=jnp.tanh),
            TypeError,
            r"compute of 'x': expected a StatefulModule, got .*wrap a pure function in Apply",
        ),
        (
            lambda g: g.add_population("x", 1, compute=Dense),
            TypeError,
            r"compute of 'x': expected a StatefulModule, got the class Dense; pass an instance",
        ),
        (lambda g: g.add_input("x", 1, input_from=None), TypeError, r"'x'.*input_from.*got None"),
        (
            lambda g: g.add_input("x", 1, input_from="x", compute=jnp.tanh),
            TypeError,
            r"compute of 'x': expected a StatefulModule",
        ),
        (
            lambda g: g.add_output("x", 1, compute="lsmt"),
            ValueError,
            r"compute of 'x': .*did you mean 'lstm'",
        ),
        (
            lambda g: g.add_input("x", 1, input_from=3),
            TypeError,
            r"input_from of 'x' of type str, got 3",
        ),
        (
            lambda g: g.add_input("x", 1, input_from=""),
            ValueError,
            r"input_from of 'x' of at least",
        ),
        (
            lambda g: g.add_output("x", 1, output_to="motor"),
            ValueError,
            r"output_to of 'x'.*got 'motor', which holds the output of 'motor'; choose another",
        ),
        (
            lambda g: g.connect("Hand", "arm"),
            ValueError,
            r"as source, got 'Hand'; did you mean 'hand'",
        ),
        (
            lambda g: g.connect("hand", "elbow"),
            ValueError,
            r"as destination, got 'elbow'; there are 'hand', 'arm', 'motor'; add the population",
        ),
        (
            lambda g: g.connect("hand", 3),
            TypeError,
            r"destination of a connection of type str, got 3",
        ),
        (
            lambda g: g.connect("hand", "arm", delay=-1),
            ValueError,
            r"delay of 'hand' to 'arm': expected at least 0, got -1; a delay counts steps",
        ),
        (
            lambda g: g.connect("hand", "arm", delay="1"),
            TypeError,
            r"delay of 'hand' to 'arm': expected a number, .*got '1' of type str",
        ),
        (
            lambda g: g.connect("hand", "arm", delay=True),
            TypeError,
            r"delay of 'hand' to 'arm': expected a number, .*got True of type bool",
        ),
        (
            lambda g: g.connect("hand", "arm", transform=nnx.Linear(3, 2, rngs=nnx.Rngs(0))),
            TypeError,
            r"transform of 'hand' to 'arm': expected a StatefulModule, got Linear",
        ),
        (
            lambda g: g.connect("arm", "arm", delay=1, reciprocal=True),
            ValueError,
            r"connect\('arm', 'arm', reciprocal=True\): expected two populations, got one; leave",
        ),
        (
            lambda g: g.connect("hand", "arm", reciprocal=True),
            ValueError,
            r"delay of at least 1, got 0.*hand -> arm -> hand.*pass delay=1",
        ),
        (
            lambda g: g.connect(
                "hand", "arm", delay=1, reciprocal=True, transform=Dense(3, 2, nnx.Rngs(0))
            ),
            ValueError,
            r"expected the default transform, got Dense.*connect once for each direction",
        ),
    ],
)
def test_bad_declaration_raises_at_once_and_changes_nothing(graph, declare, error, message):
    before = graph.spec
    with pytest.raises(error, match=message):
        declare(graph)
    assert graph.spec == before


def test_unknown_population_of_an_empty_graph_raises():
    with pytest.raises(ValueError, match="there are no populations yet"):
        PopulationGraph(nnx.Rngs(0)).connect("a", "b")


def test_rngs_of_another_type_raises():
    with pytest.raises(
        TypeError, match=r"expected rngs of type nnx.Rngs, got int; pass nnx.Rngs\(0\)"
    ):
        PopulationGraph(0)


def test_cycle_without_delay_raises_with_the_cycle_and_the_cure(graph):
    graph.connect("hand", "arm")
    graph.connect("arm", "motor")
    graph.connect("arm", "arm", delay=1)
    graph.connect("motor", "arm")
    with pytest.raises(
        ValueError, match=r"cycle arm -> motor -> arm, .*connect\('motor', 'arm', delay=1\)"
    ):
        graph.finalize()


def test_self_loop_without_delay_raises_with_the_cycle(graph):
    graph.connect("arm", "arm")
    with pytest.raises(ValueError, match=r"cycle arm -> arm, .*connect\('arm', 'arm', delay=1\)"):
        graph.finalize()


def test_cycle_is_told_of_a_graph_that_nothing_else_drives():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("a", 1)
    graph.connect("a", "a")
    with pytest.raises(ValueError, match=r"cycle a -> a, .*connect\('a', 'a', delay=1\)"):
        graph.finalize()


def test_graph_without_outputs_raises():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    with pytest.raises(ValueError, match=r"at least one output population, got none.*add_output"):
        graph.finalize()


def test_graph_that_nothing_drives_raises():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("a", 1)
    with pytest.raises(
        ValueError, match=r"an input population or a connection with a delay, got neither"
    ):
        graph.finalize()


class Batchless(StatefulModule):
    """Mixes up the batch axis."""

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state, x.sum(axis=0), 0.0, {})


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            lambda: Dense(3, 5, nnx.Rngs(0)),
            r"of shape \(4, 2\), the batch and the size of 'arm', got shape \(4, 5\)",
        ),
        (Batchless, r"of shape \(4, 2\).*got shape \(3,\)"),
        (lambda: Apply(lambda x: x[:1, :2]), r"of shape \(4, 2\).*got shape \(1, 2\)"),
        (lambda: Apply(lambda x: {"y": x}), r"of shape \(4, 2\).*got a dict"),
    ],
)
def test_transform_with_a_wrong_output_raises_at_finalize(graph, transform, message):
    graph.connect("hand", "arm", transform=transform())
    with pytest.raises(ValueError, match=r"finalize: transform of 'hand->arm'.*" + message):
        graph.finalize()


def test_compute_with_a_wrong_output_raises_at_finalize(graph):
    graph.add_population("x", 3, compute=Dense(3, 4, nnx.Rngs(0)))
    with pytest.raises(
        ValueError, match=r"compute of 'x': expected output of shape \(2, 3\).*\(2, 4\)"
    ):
        graph.finalize()


def test_transform_that_takes_another_size_raises_with_its_place(graph):
    graph.connect("hand", "arm", transform=Dense(9, 2, nnx.Rngs(0)))
    with pytest.raises(ValueError, match="expected an input with 9 features") as caught:
        graph.finalize()
    assert any("in the transform of 'hand->arm'" in note for note in caught.value.__notes__)


def test_activation_that_changes_the_shape_raises_at_finalize(graph):
    graph.add_population("x", 3, activation=lambda x: x.sum(axis=-1))
    with pytest.raises(ValueError, match=r"activation of 'x'.*of shape \(2, 3\).*got shape \(2,\)"):
        graph.finalize()


def test_activation_that_raises_tells_its_population(graph):
    graph.add_population("x", 3, activation=lambda x: x @ jnp.ones((5, 5)))
    with pytest.raises(TypeError, match="dot_general") as caught:
        graph.finalize()
    note = "PopulationGraph.finalize: in the activation of 'x', called on shape (2, 3)"
    assert note in caught.value.__notes__


def test_graph_can_be_finalized_after_a_failed_attempt():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    with pytest.raises(ValueError, match="at least one output"):
        graph.finalize()
    graph.add_output("b", 1)
    graph.finalize()
    assert graph.spec.names == ("a", "b")


@pytest.mark.parametrize(
    "use",
    [
        lambda g: g({}, {"touch": jnp.ones((1, 3))}),
        lambda g: g.unroll({}, {"touch": jnp.ones((1, 1, 3))}),
        lambda g: g.initialize_state(1),
        lambda g: g.reset_state({}),
        lambda g: g.update_statistics({}),
        lambda g: g.connection("hand", "arm"),
    ],
)
def test_use_before_finalize_raises(graph, use):
    with pytest.raises(RuntimeError, match=r"expected a finalized graph.*call finalize\(\)"):
        use(graph)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("add_input", {"name": "x", "size": 1, "input_from": "x"}),
        ("add_population", {"name": "x", "size": 1}),
        ("add_output", {"name": "x", "size": 1}),
        ("connect", {"src": "a", "dst": "b"}),
        ("finalize", {}),
    ],
)
def test_declaring_after_finalize_raises(method, arguments):
    with pytest.raises(RuntimeError, match=rf"PopulationGraph.{method}: .*got a finalized one"):
        getattr(finalized(), method)(**arguments)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (
            {"y": jnp.ones((2, 3)), "z": 0},
            ValueError,
            r"no entry 'x', which .* 'a' reads; it has \['y', 'z'\]",
        ),
        ({"x": jnp.ones((2, 4))}, ValueError, r"entry 'x': expected shape \(B, 3\).*got \(2, 4\)"),
        (
            {"x": jnp.ones((5, 2, 3))},
            ValueError,
            r"entry 'x': expected shape \(B, 3\).*got \(5, 2, 3\)",
        ),
        (
            {"x": jnp.ones((7, 3))},
            ValueError,
            r"entry 'x': expected leading axes \(2,\).*got \(7,\)",
        ),
        (
            jnp.ones((2, 3)),
            TypeError,
            r"observation dict with entries 'x', got .*Array.*put a Filter",
        ),
        (None, TypeError, r"observation dict with entries 'x', got NoneType"),
    ],
)
def test_bad_observation_raises(x, error, message):
    graph = finalized()
    with pytest.raises(error, match=message):
        graph(graph.initialize_state(2), x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (jnp.ones((2, 3)), r"expected shape \(T, B, 3\).*got \(2, 3\)"),
        (jnp.ones((5, 4, 3)), r"expected leading axes \(5, 2\).*got \(5, 4\)"),
    ],
)
def test_bad_observation_sequence_raises(x, message):
    graph = finalized()
    with pytest.raises(ValueError, match=message):
        graph.unroll(graph.initialize_state(2), {"x": x})


def test_observations_of_unequal_batches_raise_without_a_state_to_compare():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    graph.add_input("b", 1, input_from="y")
    graph.add_output("c", 1)
    graph.finalize()
    with pytest.raises(ValueError, match=r"entry 'y': expected leading axes \(2,\).*got \(1,\)"):
        graph(graph.initialize_state(2), {"x": jnp.ones((2, 1)), "y": jnp.ones((1, 1))})
