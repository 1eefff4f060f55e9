"""The README's tables and examples against the program: what it says is what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import typer.main
from prometheus_client import CollectorRegistry

from app import cli, errors
from app.health import Health, serve
from app.metrics import Metrics
from app.properties import REFUSED
from app.rights import NEEDED
from schemas.records import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE: Final = ROOT / "examples" / "first-job"


def section(heading: str) -> str:
    """The text from a heading to the next of the same level or above."""
    level = heading.split(" ", 1)[0]
    start = README.index(f"\n{heading}\n") + len(heading) + 2
    end = re.compile(rf"^#{{1,{len(level)}}} ", re.MULTILINE).search(README, start)
    return README[start : end.start() if end else None]


def table(heading: str, first_column: str) -> list[list[str]]:
    """The rows of the table below a heading whose first column has this name."""
    lines = iter(section(heading).splitlines())
    for line in lines:
        if line.startswith(f"| {first_column} |"):
            break
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def ticked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def blocks(language: str) -> list[str]:
    """The fenced texts of a language, "" for none."""
    parts = re.split(r"^```(\w*)\n", README, flags=re.MULTILINE)
    # Fences open and close in turn, so every second text between two of them is inside.
    return [text for name, text in zip(parts[1::4], parts[2::4], strict=True) if name == language]


def test_every_metric_is_in_the_table() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    # What has labels has no series yet, hence is not collected.
    metrics: list[Any] = list(registry._collector_to_names)
    there = [
        (
            metric._name + ("_total" if metric._type == "counter" else ""),
            metric._type,
            ", ".join(metric._labelnames),
            metric._documentation,
        )
        for metric in metrics
    ]
    documented = [
        (name.strip("`"), kind, labels, what)
        for name, kind, labels, what in table("## Metrics", "metric")
    ]
    assert sorted(documented) == sorted(there)


def test_reasons_are_listed_in_the_order_of_the_checks() -> None:
    assert [ticked(row[0]) for row in table("## Rejected records", "reason")] == [
        [str(reason)] for reason in Reason
    ]


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every command, those of inner groups by both names, and its options."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
            continue
        names = {name for parameter in command.params for name in parameter.opts}
        yield prefix + name, {name for name in names if name.startswith("--")} - {"--config"}


def test_every_command_and_option_is_in_the_table() -> None:
    there = dict(commands(typer.main.get_command(cli.app)))
    documented = {
        " ".join(ticked(name)): {option for option in ticked(given) if option.startswith("--")}
        for name, _, given in table("## Commands", "command")
    }
    assert documented == there


def test_every_exit_code_is_in_the_table() -> None:
    codes = {getattr(errors, name) for name in vars(errors) if name.startswith("EXIT_")}
    assert {int(row[0]) for row in table("## Commands", "exit code")} == codes
    told = {row[0] for row in table("## What you see, what it means, what to do", "exit")}
    assert told == {str(code) for code in codes - {errors.EXIT_DONE}} | {"-"}


@pytest.fixture
def found_nowhere() -> Iterator[str]:
    """What a worker's server says of a path that it does not have."""
    health = Health(live=lambda: None, ready=lambda: None, status=dict)
    server = serve("127.0.0.1", 0, health, CollectorRegistry())
    yield server.answer("/nothing").body.decode()
    server.close()


def test_every_path_is_in_the_table(found_nowhere: str) -> None:
    documented = {path for row in table("## HTTP", "path") for path in ticked(row[0])}
    assert documented == set(re.findall(r"/[a-z]*", found_nowhere))


def test_the_rights_are_those_that_a_worker_asks_for() -> None:
    documented = {
        name: {*operations.split(", "), "Describe"}
        for kind, named, operations, purpose in table("## Security", "resource")
        if kind == "Topic" and purpose == "`run`"
        for name in ticked(named)
    }
    said = ("left.topic", "right.topic", "output.topic", "<name>-changelog", "<name>-rejects")
    needed = {name: set(NEEDED[what]) for name, what in zip(said, NEEDED, strict=True)}
    assert documented == needed


def test_properties_said_to_be_free_are_not_refused() -> None:
    free = [ticked(row[0])[0] for row in table("## Settings", "property")]
    assert free
    assert not set(free) & set(REFUSED)


def test_the_first_job_is_the_one_in_the_examples() -> None:
    assert (EXAMPLE / "job.toml").read_text(encoding="utf-8") in blocks("toml")
    assert (EXAMPLE / "corrections.jsonl").read_text(encoding="utf-8") in blocks("")
    shown = README.index((EXAMPLE / "shifts.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert shown > 0


def test_the_default_schema_is_the_one_in_use() -> None:
    assert (ROOT / "schemas" / "event.avsc").read_text(encoding="utf-8") in blocks("json")


def test_links_within_the_repository_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in anchors
        elif not target.startswith("https://"):
            assert (ROOT / target).is_file(), target
