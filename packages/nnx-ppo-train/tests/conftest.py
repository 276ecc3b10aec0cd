"""What all tests of this package share."""

from collections.abc import Iterator

import pytest
from nnx_ppo_train import _update
from nnx_ppo_train._compiler import to_run_once


@pytest.fixture(scope="session", autouse=True)
def quick_compilation(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compiles iterations for compile time as well where nothing runs long."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.option.markexpr == "not slow":
            patch.setattr(_update, "to_run_often", to_run_once)
        yield
