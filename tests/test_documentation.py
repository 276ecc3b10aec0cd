"""Every Python fence of the documentation runs, top to bottom, one namespace per page."""

import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/*.md")])


@pytest.mark.fast("README.md", "docs/concepts.md", "docs/environments.md")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_fences_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = list(Sybil(parsers=[PythonCodeBlockParser()]).parse(page))
    fences = re.findall(r"^\s*```python", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(examples) == len(fences), "a fence is not recognised and would never run"
    for example in examples:
        example.evaluate()


def test_documentation_has_python_to_run():
    with_python = {page.name for page in PAGES if "```python" in page.read_text(encoding="utf-8")}
    assert with_python >= {"README.md", "quickstart.md", "graph-networks.md", "writing-a-module.md"}
