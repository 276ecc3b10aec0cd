"""The examples in docstrings run and print what they say.

Two packages run theirs in every test run of their own, so that here they are slow tests.
"""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WITH_EXAMPLES = [
    path for path in sorted(ROOT.glob("packages/*/src/**/*.py")) if ">>> " in path.read_text()
]


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts[3:]
    return ".".join(part for part in parts if part != "__init__")


@pytest.mark.fast("nnx_ppo*")
@pytest.mark.parametrize("name", [_module_name(path) for path in WITH_EXAMPLES])
def test_docstring_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.REPORT_NDIFF
    )
    assert failed == 0, f"{name}: {failed} lines of docstring examples fail; see the output above"
