"""`replay`: two files in, matches out, no broker anywhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from app.cli import run_command
from tests.unit.jobs import MINIMAL, write_job
from tests.unit.test_readme import EXAMPLE

PLAIN: Final = MINIMAL.replace('name = "job"\n', 'name = "job"\nunit = "none"\n').replace(
    '"10s"', "10"
).replace('"12h"', "50")  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run_command(["replay", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_first_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shifts, faults = (str(EXAMPLE / f"{name}.jsonl") for name in ("shifts", "faults"))
    refused = tmp_path / "refused.jsonl"
    config = ("-c", str(EXAMPLE / "job.toml"))
    assert run_command(["replay", *config, shifts, faults, "--rejects", str(refused)]) == 0
    out, err = capsys.readouterr()
    matches = [json.loads(line) for line in out.splitlines()]
    assert {match["id"] for match in matches} == {
        "L:s1|R:f1", "L:s1|R:f3", "L:s2|R:f2", "L:s3|R:f3",
    }  # fmt: skip
    (one,) = [match for match in matches if match["id"] == "L:s1|R:f3"]
    assert (one["start"], one["end"]) == (1740994200000, 1740995999999)
    assert (one["left"]["payload"], one["right"]["payload"]) == ("Anna", "belt slips")
    # Both files are known from their beginnings here: f5 comes before its watermark.
    rejects = [json.loads(line) for line in refused.read_text().splitlines()]
    assert [(one["reason"], one["side"], one["line"]) for one in rejects] == [
        ("late", "right", 5), ("invalid_interval", "right", 6),
    ]  # fmt: skip
    assert rejects[1]["value"]["payload"] == "ends before it starts"
    assert (rejects[1]["key"], rejects[1]["file"]) == ("press-1", faults)
    assert err == "2 rejected: 1 invalid_interval, 1 late\n"


def files(tmp_path: Path, left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[str]:
    paths = []
    for name, rows in (("left", left), ("right", right)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        paths.append(str(path))
    return ["-c", str(write_job(tmp_path, PLAIN)), *paths]


def row(name: str, start: int, end: int, kind: str = "INSERT", key: str | None = "k") -> Any:
    return {"key": key, "id": name, "ts": start, "start": start, "end": end, "kind": kind}


def test_changes_are_told_in_their_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # A retraction comes when its side has come as far as the row before it.
    left = [row("l", 0, 9), row("m", 6, 6), row("l", 0, 9, "RETRACT")]
    arguments = files(tmp_path, left, [row("r", 5, 7), row("s", 6, 8)])
    assert {one["id"] for one in run(capsys, *arguments)} == {"L:m|R:r", "L:m|R:s"}
    changes = run(capsys, *arguments, "--changes")
    assert [(one["change"], one["id"]) for one in changes] == [
        ("insert", "L:l|R:r"), ("insert", "L:m|R:r"), ("retract", "L:l|R:r"),
        ("insert", "L:m|R:s"),
    ]  # fmt: skip
    assert changes[2]["right"]["id"] == "r"


def test_a_watermark_without_a_key_speaks_in_every_partition(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # The right side's comes first, as it is the earlier one.
    left, right = (row("", ts, ts, "WATERMARK", None) for ts in (1_000, 999))
    old = [row(f"l{number}", 0, 9, key=f"k{number}") for number in range(20)]
    arguments = files(tmp_path, [left, *old], [right])
    run(capsys, *arguments, "--partitions", "4", "--rejects", str(tmp_path / "rejects"))
    rejects = [json.loads(line) for line in (tmp_path / "rejects").read_text().splitlines()]
    assert [one["reason"] for one in rejects] == ["late"] * 20


def test_an_empty_cell_of_a_csv_file_is_no_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    head = "key,id,ts,start,end,kind"
    old = [f"k{number},l{number},0,0,9," for number in range(20)]
    for name, lines in (
        ("left", [head, ",,1000,0,0,WATERMARK", *old, ",lost,1000,0,9,"]),
        ("right", [head, ",,999,0,0,WATERMARK", ",gone,1000,0,9,"]),
    ):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    paths = [str(tmp_path / name) for name in ("left.csv", "right.csv", "refused")]
    config = str(write_job(tmp_path, PLAIN))
    more = ("--partitions", "4", "--rejects", paths[2])
    assert run(capsys, "-c", config, *paths[:2], *more) == []
    rejects = [json.loads(line) for line in Path(paths[2]).read_text().splitlines()]
    assert Counter(one["reason"] for one in rejects) == {"late": 20, "null_key": 2}
    nameless = [(one["key"], one["value"]["id"]) for one in rejects if one["reason"] == "null_key"]
    assert sorted(nameless) == [(None, "gone"), (None, "lost")]


def test_the_format_is_for_the_file_whose_name_does_not_say_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = files(tmp_path, [row("l", 0, 9)], [])
    arguments[-1] = str(tmp_path / "right")
    Path(arguments[-1]).write_text("key,id,ts,start,end\nk,r,5,5,7\n")
    (match,) = run(capsys, *arguments, "--format", "csv")
    assert match["id"] == "L:l|R:r"


def test_json_jobs_and_outer_joins(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    left = [{**row("l", 0, 9), "who": "Anna"}, row("alone", 20, 29), row("x", 1_000, 1_000)]
    right = [row("r", 5, 7), row("bad", 9, 0), row("y", 1_000, 1_000)]
    _, *paths = files(tmp_path, left, right)[1:]
    text = PLAIN + 'type = "left"\n[schema]\nformat = "json"\n'
    config = str(write_job(tmp_path, text, "json.toml"))
    refused = tmp_path / "refused"
    matches = run(capsys, "-c", config, *paths, "--rejects", str(refused))
    found = {match["id"]: match for match in matches}
    assert found.keys() == {"L:l|R:r", "L:alone", "L:x|R:y"}
    assert found["L:l|R:r"]["left"]["who"] == "Anna"
    assert (found["L:alone"]["start"], found["L:alone"]["right"]) == (20, None)
    (reject,) = map(json.loads, refused.read_text().splitlines())
    assert (reject["reason"], reject["line"]) == ("invalid_interval", 2)
    assert reject["value"]["id"] == "bad"


def test_times_that_look_like_another_unit_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    now_s = 1_740_994_200
    left, right = [row("l", now_s, now_s)], [row("r", now_s * 1000, now_s * 1000)]
    _, *paths = files(tmp_path, left, right)[1:]
    config = str(write_job(tmp_path, MINIMAL, "ms.toml"))
    assert run_command(["replay", "-c", config, *paths]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert 'the times look like "s", not "ms": correct time_unit or unit' in err
    assert "side=left" in err
    assert "side=right" not in err


def test_results_go_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7)])
    assert run(capsys, *arguments, "--output", str(tmp_path / "out")) == []
    assert json.loads((tmp_path / "out").read_text())["id"] == "L:l|R:r"


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([{"id": "l"}], "left.jsonl:1: column key is missing"),
        ([row("l", 0, 9), {**row("m", 0, 9), "ts": 0.5}], "left.jsonl:2: ts must be an integer"),
    ],
)
def test_a_row_that_is_no_record_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, rows: list[dict[str, Any]], line: str
) -> None:
    assert run_command(["replay", *files(tmp_path, rows, [])]) == 2
    assert line in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = str(tmp_path / "no" / "out")
    assert run_command(["replay", *files(tmp_path, [], []), "--output", wrong]) == 2
    assert f"{wrong}: cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--output", "--rejects"])
@pytest.mark.parametrize("spelling", ["right.jsonl", "../{}/left.jsonl", "link", "hard"])
def test_an_input_is_never_written_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, spelling: str
) -> None:
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7)])
    (tmp_path / "link").symlink_to("right.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "left.jsonl")
    before = [(tmp_path / f"{side}.jsonl").read_text() for side in ("left", "right")]
    path = f"{tmp_path}/{spelling.format(tmp_path.name)}"
    assert run_command(["replay", *arguments, option, path]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"spanjoin: {option} {path} would be written over {tmp_path}/")
    assert err.endswith(", which is read: name another file\n")
    assert out == ""
    assert [(tmp_path / f"{side}.jsonl").read_text() for side in ("left", "right")] == before


def test_an_input_is_not_what_is_written_until_it_is_complete(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7)])
    partial = (tmp_path / "left.jsonl").rename(tmp_path / "out.partial")
    arguments[2] = str(partial)
    out = str(tmp_path / "out")
    assert run_command(["replay", *arguments, "--format", "jsonl", "--output", out]) == 2
    assert f"--output {out} would be written over {partial}" in capsys.readouterr().err
    assert partial.read_text()


@pytest.mark.parametrize("rejects", ["out", "no/../out", "out.partial"])
def test_matches_and_rejects_are_two_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, rejects: str
) -> None:
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7)])
    out, refused = f"{tmp_path}/out", f"{tmp_path}/{rejects}"
    assert run_command(["replay", *arguments, "--output", out, "--rejects", refused]) == 2
    assert capsys.readouterr().err == (
        f"spanjoin: --output {out} and --rejects {refused} would be written over each other: "
        "name two files\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_leaves_the_results_of_the_one_before(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7), row("bad", 9, 0)])
    written = [tmp_path / name for name in ("out", "refused")]
    arguments += ["--output", str(written[0]), "--rejects", str(written[1])]
    assert run(capsys, *arguments, "--changes") == []
    before = [path.read_text() for path in written]
    assert all(before)
    (tmp_path / "right.jsonl").write_text("[]\n")
    assert run_command(["replay", *arguments, "--changes"]) == 2
    assert [path.read_text() for path in written] == before
    assert not list(tmp_path.glob("*.partial"))


def test_a_device_stays_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7)])
    run(capsys, *arguments, "--output", "/dev/null", "--rejects", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_a_link_goes_on_to_name_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "out").symlink_to("results")
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7)])
    run(capsys, *arguments, "--output", str(tmp_path / "out"))
    assert json.loads((tmp_path / "results").read_text())["id"] == "L:l|R:r"
    assert (tmp_path / "out").is_symlink()


def test_a_private_file_stays_private(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.touch(0o600)
    arguments = files(tmp_path, [row("l", 0, 9)], [row("r", 5, 7)])
    run(capsys, *arguments, "--output", str(out))
    assert json.loads(out.read_text())["id"] == "L:l|R:r"
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_directory_is_no_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run_command(["replay", *files(tmp_path, [], []), "--output", str(tmp_path)]) == 2
    assert f"{tmp_path}: cannot be written: name a file" in capsys.readouterr().err
