"""Rules on imports that a linter cannot state, checked on the syntax trees of all sources."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {path.name: path.parents[1] for path in ROOT.glob("packages/*/src/*") if path.is_dir()}
"""Import name of each package of the workspace -> its project folder."""

IMPORT_NAMES = {
    "imageio": {"imageio", "imageio_ffmpeg"},
    "playground": {"mujoco", "mujoco_playground"},
    "tensorboardx": {"tensorboardX"},
}
"""Optional distributions that are imported by another name than their own."""


def _sources(*patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def _source_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


LIBRARY = _sources("packages/*/src/**/*.py")
EVERYTHING = LIBRARY + _sources(
    "packages/*/tests/**/*.py", "tests/**/*.py", "examples/**/*.py", "benchmarks/**/*.py"
)


def owner_of(path: Path) -> str | None:
    """The package a file belongs to (its sources and its tests alike), None for the workspace's."""
    return next((name for name, folder in PACKAGES.items() if path.is_relative_to(folder)), None)


def imported_modules(node: ast.AST) -> list[str]:
    """Absolute dotted names that an import statement may load; none for a relative import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def foreign_private_imports(tree: ast.AST, owner: str | None) -> list[str]:
    """`line: module` of every import of an underscore module that another package owns."""
    found = []
    for node in ast.walk(tree):
        for module in imported_modules(node):
            top, *rest = module.split(".")
            private = any(re.match(r"_(?!_)", part) for part in rest)
            if top in PACKAGES and top != owner and private:
                found.append(f"{getattr(node, 'lineno', 0)}: {module}")
    return found


def local_imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements inside functions."""
    seen = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom) and node not in seen:
                    seen.add(node)
                    yield node


def optional_modules() -> set[str]:
    """Import names of everything that some member lists as an optional extra."""
    names = set()
    for folder in PACKAGES.values():
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for requirements in project.get("optional-dependencies", {}).values():
            for requirement in requirements:
                name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower()
                names |= IMPORT_NAMES.get(name, {name.replace("-", "_")})
    return names


def needs_an_extra(module: Path, optional: set[str]) -> bool:
    """Whether one of our own modules imports an optional extra at its top level."""
    if not module.is_file():
        return False
    top_level = ast.parse(module.read_text()).body
    return any(
        name.split(".")[0] in optional for node in top_level for name in imported_modules(node)
    )


def own_targets(path: Path, node: ast.Import | ast.ImportFrom) -> list[Path]:
    """The files of our own that a relative import in `path` loads."""
    if isinstance(node, ast.Import) or node.level == 0:
        return []
    folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    inside = [folder / f"{alias.name}.py" for alias in node.names]
    return [folder.with_suffix(".py"), *inside]


def needless_local_imports(path: Path, tree: ast.AST, optional: set[str]) -> list[str]:
    """`line: statement` of every import in a function that serves no optional extra."""
    found = []
    for node in local_imports(tree):
        extra = any(name.split(".")[0] in optional for name in imported_modules(node))
        if not extra and not any(needs_an_extra(own, optional) for own in own_targets(path, node)):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", EVERYTHING, ids=_source_id)
def test_imports_no_underscore_module_of_another_package(path):
    found = foreign_private_imports(ast.parse(path.read_text()), owner_of(path))
    assert not found, (
        f"{_source_id(path)} imports private modules; import from the package: {found}"
    )


@pytest.mark.parametrize("path", LIBRARY, ids=_source_id)
def test_function_local_imports_serve_optional_extras(path):
    found = needless_local_imports(path, ast.parse(path.read_text()), optional_modules())
    assert not found, f"{_source_id(path)}: move these to the top of the module: {found}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from nnx_stateful._state import reset_rows", ["1: nnx_stateful._state.reset_rows"]),
        ("from nnx_stateful import _state", ["1: nnx_stateful._state"]),
        ("import nnx_stateful.containers._map", ["1: nnx_stateful.containers._map"]),
        ("from nnx_graph._graph import PopulationGraph", []),
        ("from nnx_stateful import __version__", []),
        ("from nnx_stateful import reset_rows", []),
        ("from . import _graph", []),
    ],
)
def test_foreign_private_imports_finds_each_spelling(code, expected):
    assert foreign_private_imports(ast.parse(code), owner="nnx_graph") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f():\n    import json", ["2: import json"]),
        ("def f():\n    from nnx_graph import x", ["2: from nnx_graph import x"]),
        ("class A:\n    def f(self):\n        from ._other import x", ["3: from ._other import x"]),
        ("def f():\n    import networkx as nx", []),
        ("def f():\n    from mujoco_playground import registry", []),
        ("import json", []),
    ],
)
def test_needless_local_imports_allows_only_optional_extras(code, expected):
    assert needless_local_imports(Path(__file__), ast.parse(code), optional_modules()) == expected


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_package_ships_its_types_and_licence(name):
    assert (PACKAGES[name] / "src" / name / "py.typed").is_file()
    assert (PACKAGES[name] / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
