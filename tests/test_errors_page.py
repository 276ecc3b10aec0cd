"""The page of errors shows what the calls in its script say today."""

import runpy
from pathlib import Path

import jax
import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
CACHE = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    before = {name: getattr(jax.config, name) for name in CACHE}  # the command line sets its own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield runpy.run_path(str(DOCS / "errors.py"))
    for name, value in before.items():
        jax.config.update(name, value)


def test_page_is_what_the_calls_say(script):
    assert (DOCS / "errors.md").read_text(encoding="utf-8") == script["page"](), (
        "docs/errors.md is stale: run `uv run python docs/errors.py`"
    )


def test_messages_say_what_was_expected_and_name_no_machine():
    lines = (DOCS / "errors.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) >= 60
    for row in rows:
        assert any(word in row for word in ("xpected", "no entry", "there is no")), row
        assert "/tmp" not in row
        assert "0x" not in row
