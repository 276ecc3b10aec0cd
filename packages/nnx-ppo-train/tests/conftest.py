"""What all tests of this package share."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from nnx_ppo_train import _update
from nnx_ppo_train._compiler import to_run_once

from ._cli import FINISHED, OWN_CODE


@pytest.fixture(scope="session", autouse=True)
def quick_compilation(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compiles iterations for compile time as well where nothing runs long."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.option.markexpr == "not slow":
            patch.setattr(_update, "to_run_often", to_run_once)
        yield


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which what one test of the command line compiles the next one finds."""
    return tmp_path_factory.mktemp("cache")


@contextlib.contextmanager
def _one_cache(cache_home: Path) -> Iterator[pytest.MonkeyPatch]:
    """Context in which the command line uses the cache; the process is left as it was."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        patch.setattr(sys, "path", list(sys.path))
        yield patch
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(scope="module")
def command_line(cache_home: Path) -> Iterator[None]:
    """For modules that call the command line."""
    with _one_cache(cache_home):
        yield


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory, cache_home: Path) -> Any:
    from nnx_ppo_train.cli import main  # few test processes need it
    from nnx_ppo_train.cli._run_folder import RunFolder

    place = tmp_path_factory.mktemp("finished")
    with _one_cache(cache_home) as patch:
        patch.chdir(place)
        assert main([*FINISHED, "--run-dir", "run"]) == 0
    return RunFolder(place / "run")


@pytest.fixture
def finished(command_line: None, _finished: Any) -> Any:
    """A run that went through, which all tests share; those that change it copy it."""
    return _finished


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs leave no pictures: those take a second each."""
    for session in ("_session", "_many_session"):
        monkeypatch.setattr(f"nnx_ppo_train.cli.{session}.draw_pictures", lambda *_: None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty current folder with code of the user's own in it, whose module is named."""
    monkeypatch.chdir(tmp_path)
    module = f"own_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(OWN_CODE)
    return module
