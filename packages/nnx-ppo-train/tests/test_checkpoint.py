"""Checkpoints come back bit for bit, appear whole or not at all, and say what does not fit."""

import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    NormalTanhSampler,
    PPOAdapter,
    PPOConfig,
    TrainConfig,
    latest_checkpoint,
    load_checkpoint,
    make_checkpoint_fn,
    make_env,
    save_checkpoint,
    train_ppo,
)
from nnx_stateful import GRU, Dense, Normalizer, Sequential

ITERATION = 4 * 3  # environments times rollout length


def make_config(iterations=2, **ppo):
    ppo = {"gradient_clipping": 1.0, "n_minibatches": 2, **ppo}
    return TrainConfig(
        ppo=PPOConfig(n_envs=4, rollout_length=3, total_steps=iterations * ITERATION, **ppo),
        eval=EvalConfig(enabled=False),
        checkpoint_every_steps=ITERATION,
    )


def make_network(hidden=5, seed=0):
    rngs = nnx.Rngs(seed)
    sampler = NormalTanhSampler(rngs)
    action = Sequential([Dense(hidden, 2, rngs), sampler])
    adapter = PPOAdapter(action=action, value=Dense(hidden, 1, rngs))
    return Sequential([Normalizer(4), GRU(4, hidden, rngs), adapter])


def plain(tree):
    """All leaves as NumPy arrays, keys as their data."""

    def to_numpy(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(to_numpy, tree)


def parts(state):
    return plain(
        (
            nnx.state(state.networks),
            state.network_states,
            state.env_states,
            state.optimizer,
            state.rng_key,
            state.episodes,
        )
    )


def assert_identical(one, other):
    assert one.steps_taken == other.steps_taken
    one, other = parts(one), parts(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True
    ):
        assert a.dtype == b.dtype, path
        np.testing.assert_array_equal(a, b, err_msg=str(path))


@pytest.fixture(scope="module")
def env():
    return make_env("cartpole")


@pytest.fixture(scope="module")
def trained(env):
    return train_ppo(env, make_network(), make_config()).training_state


@pytest.fixture
def saved(tmp_path, trained):
    save_checkpoint(tmp_path / "saved", trained, make_config())
    return tmp_path / "saved"


def test_loaded_state_is_identical(env, trained, saved):
    loaded = load_checkpoint(saved, make_network(seed=1), env, make_config())
    assert_identical(loaded, trained)
    assert loaded.steps_taken == 2 * ITERATION


def test_load_leaves_the_template_alone(env, trained, saved):
    template = make_network(seed=1)
    before = plain(nnx.state(template))
    load_checkpoint(saved, template, env, make_config())
    jax.tree.map(np.testing.assert_array_equal, plain(nnx.state(template)), before)


def test_resumed_training_equals_uninterrupted_training(env, trained, saved):
    straight = train_ppo(env, make_network(), make_config(iterations=4)).training_state
    template = make_network(seed=1)
    start = load_checkpoint(saved, template, env, make_config())
    resumed = train_ppo(env, template, make_config(iterations=4), initial_state=start)
    assert_identical(resumed.training_state, straight)


def test_checkpoint_holds_no_pickle_and_notes_version_and_config(saved):
    record = json.loads((saved / "checkpoint.json").read_text())
    assert (record["version"], record["steps_taken"]) == (4, 2 * ITERATION)
    assert record["config"]["ppo"]["n_envs"] == 4
    assert not [file for file in saved.rglob("*") if "pickle" in file.name or "pkl" in file.name]


def test_leaves_without_elements_come_back(tmp_path, trained, env):
    class Hollow:
        def __getattr__(self, name):
            return getattr(env, name)

        def reset(self, rng):
            state = env.reset(rng)
            return state.replace(info={**state.info, "nothing": jnp.zeros((0, 3))})

    states = trained.env_states
    states = states.replace(info={**states.info, "nothing": jnp.zeros((4, 0, 3))})
    state = dataclasses.replace(trained, env_states=states)
    save_checkpoint(tmp_path / "saved", state)
    loaded = load_checkpoint(tmp_path / "saved", make_network(), Hollow(), make_config())
    assert_identical(loaded, state)


def test_checkpoint_fn_in_training_keeps_the_newest(tmp_path, env):
    config = make_config(iterations=3)
    train_ppo(env, make_network(), config, checkpoint_fn=make_checkpoint_fn(tmp_path, keep=2))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"step_{steps:010d}" for steps in (2 * ITERATION, 3 * ITERATION)]
    assert latest_checkpoint(tmp_path).name == names[-1]


def test_checkpoint_fn_keeps_all_unless_told_otherwise(tmp_path, trained):
    save = make_checkpoint_fn(tmp_path)
    for step in (0, 9_999_999_999, 12_345_678_901):
        save(trained, step)
    save.wait()
    assert len(list(tmp_path.iterdir())) == 3
    assert latest_checkpoint(tmp_path).name == "step_12345678901"


def test_interrupted_save_leaves_the_older_checkpoint(tmp_path, env, trained, monkeypatch):
    save = make_checkpoint_fn(tmp_path, keep=1)
    save(trained, 10)
    save.wait()

    def fail(self, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.PosixPath.rename", fail)
        save(trained, 20)
        with pytest.raises(KeyboardInterrupt):
            save.wait()
    assert latest_checkpoint(tmp_path).name == "step_0000000010"
    load_checkpoint(latest_checkpoint(tmp_path), make_network(), env, make_config())
    save(trained, 20)
    save.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["step_0000000020"]


def test_saving_the_same_state_again_changes_nothing(tmp_path, trained):
    save = make_checkpoint_fn(tmp_path)
    save(trained, trained.steps_taken)
    file = latest_checkpoint(tmp_path) / "checkpoint.json"
    before = file.stat().st_mtime_ns
    save(trained, trained.steps_taken)
    assert file.stat().st_mtime_ns == before


def test_checkpoint_fn_refuses_a_directory_of_another_run(tmp_path, trained):
    make_checkpoint_fn(tmp_path)(trained, trained.steps_taken)
    other = make_checkpoint_fn(tmp_path)
    with pytest.raises(ValueError, match=r"no checkpoints after step 0, found step_0000000024"):
        other(trained, 0)
    state = dataclasses.replace(trained, rng_key=jax.random.key(99))
    with pytest.raises(ValueError, match="got one of another run"):
        other(state, state.steps_taken)


def test_saving_over_something_raises(saved, trained):
    with pytest.raises(ValueError, match="expected a path that does not exist yet"):
        save_checkpoint(saved, trained)


@pytest.mark.parametrize("keep", [0, -1])
def test_keeping_none_raises(tmp_path, keep):
    with pytest.raises(ValueError, match="keep: expected a whole number of at least 1"):
        make_checkpoint_fn(tmp_path, keep=keep)


def test_loading_nothing_raises(tmp_path, env):
    with pytest.raises(FileNotFoundError, match="expected a checkpoint, there is nothing"):
        load_checkpoint(tmp_path / "absent", make_network(), env, make_config())
    with pytest.raises(FileNotFoundError, match="no such directory"):
        latest_checkpoint(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="no checkpoint in it"):
        latest_checkpoint(tmp_path)


def test_loading_another_folder_raises_and_points_to_the_checkpoint(tmp_path, env, trained):
    with pytest.raises(ValueError, match=r"there is no checkpoint\.json"):
        load_checkpoint(tmp_path, make_network(), env, make_config())
    make_checkpoint_fn(tmp_path)(trained, 24)
    with pytest.raises(ValueError, match="a directory of checkpoints, load step_0000000024"):
        load_checkpoint(tmp_path, make_network(), env, make_config())


def test_loading_a_newer_format_raises(env, saved):
    file = saved / "checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 5}))
    with pytest.raises(ValueError, match=r"expected format .* version 3 or 4, got .* version 5"):
        load_checkpoint(saved, make_network(), env, make_config())


def test_loading_another_width_raises_with_path_and_shapes(env, saved):
    expected = r"params/child_modules/1/bias/value: expected float32\[18\], got float32\[15\]"
    with pytest.raises(ValueError, match=expected):
        load_checkpoint(saved, make_network(hidden=6), env, make_config())


def test_loading_another_optimizer_raises_with_path(env, saved):
    config = make_config(gradient_clipping=None)
    with pytest.raises(ValueError, match=r"optimizer/.*: expected .*, got nothing"):
        load_checkpoint(saved, make_network(), env, config)


def test_loading_for_another_environment_raises_with_path(saved):
    with pytest.raises(ValueError, match=r"env_states/obs: expected float32\[4, 2\], got .*4, 4\]"):
        load_checkpoint(saved, make_network(), make_env("cartpole-positions"), make_config())


# ---- damage ----------------------------------------------------------------------------------


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def largest(folder):
    return max(
        (file for file in folder.rglob("*") if file.is_file()), key=lambda f: f.stat().st_size
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "expected a JSON object, got a list"),
        ('{"format": "nnx-ppo', "expected a JSON object, got text that is none"),
        ('{"format": "nnx-ppo-train checkpoint", "version": 3}', "expected the entries leaves"),
        (
            '{"format": "nnx-ppo-train checkpoint", "version": 3, "steps_taken": 1, '
            '"leaves": {"a": {}}}',
            "expected the entries leaves",
        ),
    ],
)
def test_damaged_record_names_the_file_and_the_checkpoint_before(
    tmp_path, trained, env, text, problem
):
    save = make_checkpoint_fn(tmp_path)
    save(trained, 10)
    save(trained, 20)
    newest = latest_checkpoint(tmp_path)
    (newest / "checkpoint.json").write_text(text)
    with pytest.raises(ValueError, match=problem) as caught:
        load_checkpoint(newest, make_network(), env, make_config())
    assert str(caught.value).startswith(f"{newest}/checkpoint.json: ")
    assert f"restore it, or delete {newest}; the one before is step_0000000010" in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda arrays: truncate(largest(arrays)), r"arrays/.* has \d+ bytes instead of \d+"),
        (lambda arrays: largest(arrays).unlink(), r"arrays/.* is missing"),
        (
            lambda arrays: truncate(arrays / "manifest.ocdbt"),
            r"arrays/manifest\.ocdbt has \d+ bytes",
        ),
        (lambda arrays: (arrays / "_METADATA").unlink(), r"arrays/_METADATA is missing"),
        (lambda arrays: shutil.rmtree(arrays), r"arrays/.* is missing"),
    ],
)
def test_damaged_arrays_are_told_in_one_sentence(saved, env, capfd, damage, problem):
    damage(saved / "arrays")
    match = rf"saved: expected a whole checkpoint, got one that cannot be read \({problem}"
    with pytest.raises(ValueError, match=match) as caught:
        load_checkpoint(saved, make_network(), env, make_config())
    assert "; delete it, there is none before it" in str(caught.value)
    assert "Event loop" not in capfd.readouterr().err


def test_arrays_of_wrong_content_are_told_without_the_store_specification(saved, env, monkeypatch):
    def restore(*_):  # a real failure goes on in threads, which complain after the test
        raise ValueError("DATA_LOSS: checksum [tensorstore_spec='{}']")

    monkeypatch.setattr("orbax.checkpoint.StandardCheckpointer.restore", restore)
    with pytest.raises(
        ValueError, match=r"one that cannot be read \(DATA_LOSS: checksum\); delete"
    ):
        load_checkpoint(saved, make_network(), env, make_config())
