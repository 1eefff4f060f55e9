"""The rules about the code itself that no linter knows: sizes, names, who may import what."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import app.steps

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("native", "schemas", "state", "rebalance", "app")
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
FORBIDDEN_WORDS = {"Manager", "Helper", "Handler", "Util", "Utils", "Base", "Context"}
# Where things are fetched from is a setting of the machine, never of the project: the code names
# no address but its own, and the documents link to other projects only. (The name that every SVG
# begins with looks like one.)
ADDRESSES = re.compile(
    r"https?://(?!localhost|127\.0\.0\.1|\{|registry[:/]|prometheus[.:]|www\.w3\.org/)[\w.-]+"
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+|farm)/")


@cache
def tracked() -> tuple[Path, ...]:
    """The files of the project: what git knows, or without git what lies in its directories."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False
    )
    if done.returncode == 0:
        names = done.stdout.decode().split("\0")
        return tuple(path for name in names if name and (path := ROOT / name).is_file())
    folders = (*LAYERS, "tests", "bench", "deploy")
    return tuple(path for folder in folders for path in (ROOT / folder).rglob("*.*"))


def python_files(*folders: str) -> list[Path]:
    roots = {ROOT / folder for folder in folders}
    return [path for path in tracked() if path.suffix == ".py" and roots & set(path.parents)]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """The full names of the modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return found


def importers(package: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in python_files(*LAYERS)
        if any(name.split(".")[0] == package for name in imports(path))
    }


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def words(name: str) -> set[str]:
    """The words of a class or module name: RestoreManager and restore_manager have both Manager."""
    return {word.capitalize() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{one.lineno} {one.name}: {one.end_lineno - one.lineno + 1}"
        for path in python_files(*LAYERS, "tests", "bench")
        for one in functions(path)
        if one.end_lineno is not None and one.end_lineno - one.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_file_is_too_long() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {lines}"
        for path in python_files(*LAYERS, "tests", "bench")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    ]
    assert long == []


def test_names_say_what_a_thing_is() -> None:
    vague = []
    for path in python_files(*LAYERS):
        names = [
            path.stem,
            *(one.name for one in ast.walk(tree(path)) if isinstance(one, ast.ClassDef)),
        ]
        vague += [
            f"{path.relative_to(ROOT)}: {name}" for name in names if words(name) & FORBIDDEN_WORDS
        ]
    assert vague == []


def test_only_the_store_knows_rocksdb() -> None:
    assert importers("rocksdict") <= {"state/resources.py", "state/store.py"}


def test_only_one_package_knows_the_kafka_client() -> None:
    assert {
        name for name in importers("confluent_kafka") if not name.startswith("app/kafka/")
    } == set()


def test_no_module_imports_its_tests() -> None:
    assert importers("tests") == set()


def pure_modules() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (forbidden,) = [one for one in contracts if one["type"] == "forbidden"]
    modules = forbidden["source_modules"]
    assert isinstance(modules, list)
    return modules


@pytest.mark.parametrize("module", pure_modules())
def test_a_pure_module_reads_no_clock_and_no_environment(module: str) -> None:
    """import-linter sees modules only; these are attributes of modules that are allowed."""
    path = ROOT / (module.replace(".", "/") + ".py")
    attributes = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    called = {node.id for node in ast.walk(tree(path)) if isinstance(node, ast.Name)}
    assert attributes & {"today", "utcnow", "environ", "getenv"} == set()
    assert called & {"open", "print", "input"} == set()
    assert "datetime.now" not in path.read_text(encoding="utf-8")


def test_every_test_that_a_document_names_is_there() -> None:
    known = {one.name for path in python_files("tests") for one in functions(path)}
    steps = set(app.steps.STEPS)
    missing = []
    for path in (ROOT / "ARCHITECTURE.md", ROOT / "README.md"):
        for name, step in re.findall(r"`(test_\w+)(?:\[([\w.]+) \.\.\.\])?`", path.read_text()):
            if name not in known and not (ROOT / "tests" / "kafka" / f"{name}.py").exists():
                missing.append(f"{path.name}: {name}")
            if step and step not in steps:
                missing.append(f"{path.name}: step {step}")
        missing += [
            f"{path.name}: {name}"
            for name in re.findall(r"`(tests/[\w/.]+)`", path.read_text())
            if not (ROOT / name).exists()
        ]
    assert missing == []


def test_no_file_names_a_machine_or_an_address() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}: {one[0]}"
            for pattern in (
                (MACHINE_PATHS,) if path.suffix == ".md" else (ADDRESSES, MACHINE_PATHS)
            )
            for one in pattern.finditer(text)
        ]
    assert found == []
