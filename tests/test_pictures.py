"""The pictures of the documentation: the command that draws them, and where they are shown."""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURES = sorted((DOCS / "pictures").iterdir())
LARGEST = 80_000  # bytes


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(DOCS / "pictures.py"))


@pytest.fixture(autouse=True)
def pyplot():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def test_pictures_are_shown_and_drawn_by_the_command(script):
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    shown = set(re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", pages))
    assert shown == {picture.name for picture in PICTURES}
    assert shown == {f"{name}.png" for name in script["PICTURES"]}


def test_pictures_are_small():
    assert not {p.name: p.stat().st_size for p in PICTURES if p.stat().st_size > LARGEST}


def test_command_draws_graphs_into_small_files(script, tmp_path):
    names = [name for name in script["PICTURES"] if name != "activity"]
    script["main"]([*names, "--folder", str(tmp_path)])
    sizes = {path.stem: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == set(names)
    assert all(1_000 < size < LARGEST for size in sizes.values())


def test_command_draws_the_activity_of_any_graph(script, tmp_path):
    graph = script["tutorial_graph"]()
    script["save"](script["draw_flashes"](graph, ["eye", "value"]), tmp_path / "activity.png", 96)
    assert (tmp_path / "activity.png").stat().st_size > 1_000


def test_page_shows_the_summary_and_text_of_the_tutorial_graph(script):
    graph = script["tutorial_graph"]()
    graph.finalize()
    page = (DOCS / "graph-networks.md").read_text(encoding="utf-8")
    assert f"```text\n{graph.summary()}\n```" in page
    assert f"```text\n{graph.to_mermaid()}```" in page
