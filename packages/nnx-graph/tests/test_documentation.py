"""The examples of this package run: docstrings, and the README's Python fences."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import nnx_graph
import pytest

MODULES = ["nnx_graph", *(m.name for m in pkgutil.walk_packages(nnx_graph.__path__, "nnx_graph."))]
README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    failed, _ = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.REPORT_NDIFF
    )
    assert failed == 0


def test_readme_examples_run():
    fences = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert fences
    exec(compile("\n".join(fences), str(README), "exec"), {"__name__": "readme"})
