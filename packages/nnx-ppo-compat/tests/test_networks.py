"""Published import paths of layers, and the adapters where a signature differs."""

import importlib

import jax.numpy as jnp
import nnx_ppo_train
import nnx_stateful
import numpy as np
import pytest
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_ppo.networks.factories import make_mlp_actor_critic
from nnx_ppo.networks.normalizer import Normalizer
from nnx_ppo.networks.recording import extract_activations, with_recording
from nnx_ppo.networks.recurrent import LSTM
from nnx_ppo.networks.sampling_layers import ActionSampler, NormalTanhSampler
from nnx_ppo.networks.types import StatefulModule
from nnx_ppo.networks.variational import AR1VariationalBottleneck, VariationalBottleneck

PUBLISHED = {
    "types": "ACTIVATION_KEY ModuleState PPONetworkOutput StatefulModule StatefulModuleOutput",
    "containers": "Concat Parallel Sequential Splitter",
    "utils": "Filter Flattener Map Merge Scale",
    "adapter": "PPOAdapter",
    "feedforward": "Dense",
    "recurrent": "LSTM",
    "delay": "Delay",
    "normalizer": "Normalizer NormalizerStatistics",
    "variational": "AR1VariationalBottleneck VariationalBottleneck",
    "sampling_layers": "ActionSampler NormalTanhSampler",
    "factories": "make_mlp make_mlp_actor_critic make_mlp_layers",
    "recording": "ACTIVATION_KEY extract_activations with_recording",
    "graph": "PopulationGraph",
    "graph.graph": "PopulationGraph",
}


@pytest.mark.parametrize("module", PUBLISHED)
def test_published_path_exports_its_names(module):
    names = PUBLISHED[module].split()
    found = importlib.import_module(f"nnx_ppo.networks.{module}")
    assert found.__all__ == names
    assert all(hasattr(found, name) for name in names)


@pytest.mark.parametrize(
    ("adapter", "own"),
    [
        (NormalTanhSampler, nnx_ppo_train.NormalTanhSampler),
        (VariationalBottleneck, nnx_stateful.VariationalBottleneck),
        (AR1VariationalBottleneck, nnx_stateful.AR1VariationalBottleneck),
        (LSTM, nnx_stateful.LSTM),
        (Normalizer, nnx_stateful.Normalizer),
    ],
)
def test_adapter_keeps_the_fast_unroll(adapter, own):
    assert adapter.unroll is own.unroll
    assert adapter.folds_time == own.folds_time


def test_sampler_with_rng_equals_ours_with_rngs():
    params = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4)
    options = {"entropy_weight": 1e-2, "min_std": 0.1, "std_scale": 0.5}
    published = NormalTanhSampler(rng=nnx.Rngs(5), **options)
    ours = nnx_ppo_train.NormalTanhSampler(nnx.Rngs(5), **options)
    got = published(published.initialize_state(3), params)
    want = ours(ours.initialize_state(3), params)
    np.testing.assert_array_equal(got.output["action"], want.output["action"])
    np.testing.assert_array_equal(got.regularization_loss, want.regularization_loss)


def test_samplers_count_as_action_samplers():
    assert isinstance(NormalTanhSampler(nnx.Rngs(0), 0.0), ActionSampler)
    assert isinstance(nnx_ppo_train.CategoricalSampler(nnx.Rngs(0)), ActionSampler)
    assert not isinstance(nnx_stateful.Scale(1.0), ActionSampler)
    assert issubclass(ActionSampler, StatefulModule)


@pytest.mark.parametrize("kind", [VariationalBottleneck, AR1VariationalBottleneck])
def test_bottleneck_with_rng_equals_ours_with_rngs(kind):
    own = getattr(nnx_stateful, kind.__name__)
    x = jnp.linspace(-1.0, 1.0, 12).reshape(2, 6)
    got, want = (
        layer(layer.initialize_state(2), x)
        for layer in (kind(3, rng=nnx.Rngs(1), kl_weight=0.5), own(3, nnx.Rngs(1), kl_weight=0.5))
    )
    np.testing.assert_array_equal(got.output, want.output)
    np.testing.assert_array_equal(got.regularization_loss, want.regularization_loss)


@pytest.mark.parametrize("use_optimized", [True, False])
def test_lstm_takes_published_options(use_optimized):
    x = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    lstm = LSTM(3, 4, nnx.Rngs(0), use_optimized=use_optimized, bias_init=None)
    own = nnx_stateful.LSTM(3, 4, nnx.Rngs(0))
    np.testing.assert_array_equal(
        lstm(lstm.initialize_state(2), x).output, own(own.initialize_state(2), x).output
    )


def test_lstm_uses_a_given_initialiser():
    lstm = LSTM(3, 4, nnx.Rngs(0), kernel_init=nnx.initializers.zeros)
    assert not lstm.kernel[...].any()
    assert lstm.recurrent_kernel[...].any()


def test_normalizer_takes_a_list_for_a_shape():
    assert Normalizer([2, 3]).mean.get_value().shape == (2, 3)
    assert Normalizer({"x": 4}).mean.get_value()["x"].shape == (4,)


@pytest.mark.parametrize(("normalize_obs", "n_layers"), [(True, 2), (False, 1)])
def test_make_mlp_actor_critic_takes_published_positions(normalize_obs, n_layers):
    net = make_mlp_actor_critic(5, 2, [8, 8], [16], nnx.Rngs(0), nnx.tanh, normalize_obs)
    assert len(net) == n_layers
    adapter = net[n_layers - 1]
    assert [layer.out_features for layer in adapter.action.layers[:-1]] == [8, 8, 4]
    assert [layer.out_features for layer in adapter.value.layers] == [16, 1]
    assert adapter.action.layers[0].activation is nnx.tanh
    assert adapter.action.layers[-1].min_std == 0.1


def recording_net(rngs):
    heads = nnx_stateful.Parallel(ff=nnx_stateful.Dense(8, 3, rngs), rnn=LSTM(8, 6, rngs))
    return nnx_stateful.Sequential([nnx_stateful.Dense(4, 8, rngs), heads])


def test_extract_activations_nests_like_the_network():
    net = with_recording(recording_net(nnx.Rngs(0)))
    found = extract_activations(net(net.initialize_state(2), jnp.ones((2, 4))).metrics)
    assert set(found) == {0, 1}
    assert found[0].shape == (2, 8)
    assert {name: leaf.shape for name, leaf in found[1].items()} == {"ff": (2, 3), "rnn": (2, 6)}


def test_extract_activations_has_every_population_of_a_graph():
    g = PopulationGraph(nnx.Rngs(0))
    g.add_input("eye", 4, input_from="x")
    g.add_population("core", 5, activation=nnx.tanh)
    g.add_output("arm", 3)
    g.connect("eye", "core")
    g.connect("core", "arm", transform=nnx_stateful.Dense(5, 3, nnx.Rngs(1)))
    g.finalize()
    net = with_recording(g)
    found = extract_activations(net(net.initialize_state(2), {"x": jnp.ones((2, 4))}).metrics)
    assert {name: leaf.shape for name, leaf in found.items()} == {
        "eye": (2, 4),
        "core": (2, 5),
        "arm": (2, 3),
    }


def test_extract_activations_is_none_without_recording():
    net = recording_net(nnx.Rngs(0))
    metrics = net(net.initialize_state(2), jnp.ones((2, 4))).metrics
    assert extract_activations(metrics) is None
    assert extract_activations(jnp.ones(2)) is None
