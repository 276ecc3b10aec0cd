"""Names and numbers of metrics."""

import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train._metrics import distribution, flatten_metrics, summarize
from nnx_ppo_train._types import PPONetworkOutput


def test_trees_flatten_to_joined_names():
    record = PPONetworkOutput(actions=(1.0, 2.0), loglikelihoods=3.0, value_estimates=None)
    flat = flatten_metrics({"net": {"out": record}, "x": 4.0}, "train")
    assert flat == {
        "train/net/out/actions/0": 1.0,
        "train/net/out/actions/1": 2.0,
        "train/net/out/loglikelihoods": 3.0,
        "train/x": 4.0,
    }


def test_bare_value_takes_the_name_itself():
    assert flatten_metrics(1.0, "loss") == {"loss": 1.0}
    assert flatten_metrics({}, "loss") == {}


@pytest.mark.parametrize("dtype", [np.float32, np.int32, bool])
def test_distribution_equals_numpy(dtype):
    value = np.array([[0, 1, 1], [0, 0, 1]]).astype(dtype)
    found = distribution("x", jnp.asarray(value), (0, 50, 97.5))
    assert set(found) == {"x/mean", "x/std", "x/p0", "x/p50", "x/p97.5"}
    numbers = value.astype(float)
    assert float(found["x/mean"]) == pytest.approx(numbers.mean())
    assert float(found["x/std"]) == pytest.approx(numbers.std())
    assert float(found["x/p97.5"]) == pytest.approx(np.percentile(numbers, 97.5))


def test_summary_keeps_scalars_and_reduces_arrays():
    found = summarize({"a": jnp.ones(()), "b": jnp.arange(3.0)}, "x", None)
    assert {name: float(value) for name, value in found.items()} == {
        "x/a": 1.0,
        "x/b/mean": 1.0,
        "x/b/std": pytest.approx(np.sqrt(2 / 3)),
    }
