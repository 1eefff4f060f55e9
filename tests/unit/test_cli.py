"""What a person sees of the commands that need no broker: exit codes and the one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest
import typer

from app import cli, log, reset, secrets
from app.cli import run_command
from app.errors import Crash, Fenced, SpanjoinError, UsageError
from app.kafka import cluster
from tests.unit.jobs import MINIMAL, write_job

if TYPE_CHECKING:
    from pathlib import Path

    from app.settings import LogTable

NOWHERE = MINIMAL.replace("localhost:9092", "127.0.0.1:1")


@pytest.fixture(autouse=True)
def _logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(_log: LogTable) -> None:
        """Leave the logs of the test session alone."""

    monkeypatch.setattr(log, "configure", leave)
    monkeypatch.delenv("SPANJOIN_TRACEBACK", raising=False)


def spanjoin(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def one_line(error: str) -> str:
    """The line, which is one and names the program."""
    assert error.startswith("spanjoin: ")
    assert error.endswith("\n")
    assert error.count("\n") == 1, error
    assert "Traceback" not in error
    return error.removeprefix("spanjoin: ").rstrip()


def failed(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert run_command(list(arguments)) == code
    out, err = capsys.readouterr()
    assert out == ""
    return one_line(err)


def test_a_process_of_its_own_gives_the_exit_codes(tmp_path: Path) -> None:
    good = spanjoin("validate", "-c", str(write_job(tmp_path)))
    assert (good.returncode, good.stderr) == (0, "")
    wrong = spanjoin("run", "-c", str(tmp_path / "no.toml"))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert one_line(wrong.stderr) == (
        f"{tmp_path}/no.toml: no such file; give the configuration with -c FILE"
    )
    usage = spanjoin("run")
    assert (usage.returncode, usage.stdout) == (2, "")
    assert "Missing option '-c'" in one_line(usage.stderr)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("run", "topics", "validate", "schema", "load", "read", "status", "demo"):
        assert command in out
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out.startswith("spanjoin ")
    assert run_command([]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["run", "-c"], "requires an argument"),
        (["run", "-c", "x", "--workers", "0"], "Invalid value for '--workers'"),
        (["run", "-c", "x", "--workers", "two"], "Invalid value for '--workers'"),
        (["run", "-c", "x", "more"], "unexpected extra argument"),
        (["topics", "-c", "x", "--partitions", "0"], "Invalid value for '--partitions'"),
        (["read", "-c", "x", "--format", "xml"], "Invalid value for '--format'"),
        (["read", "-c", "x", "--nonsense"], "No such option: --nonsense"),
        (["load", "-c", "x"], "Missing "),
        (["explain", "-c", "x", "l1", "r1"], "Missing option '--key'; see: spanjoin explain --"),
        (["load", "-c", "x", "--side", "up", "data"], "Invalid value for '--side'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "-",
)
def test_wrong_use_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    line = failed(capsys, 2, *arguments)
    assert message in line
    # The parser does not always know whose option it was.
    assert line.rpartition("; see: ")[2] in {"spanjoin --help", f"spanjoin {arguments[0]} --help"}


def test_validate_says_what_was_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_job(tmp_path)
    assert run_command(["validate", "-c", str(path)]) == 0
    assert capsys.readouterr().out == (
        f"{path}: valid: l x r -> out, allowed lateness 10000 ms, max interval 43200000 ms\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL + "nonsense = 1\n", "unknown key join.nonsense"),
        (MINIMAL + "[kafka.consumer]\nacks = 1\n", "kafka.consumer.acks cannot be set"),
        (MINIMAL + "[kafka.consumer]\nno.such = 1\n", "job.toml: [kafka.consumer] No such config"),
        ("name = ", "is not valid TOML"),
        (MINIMAL.replace('"l"', '"l"\nschema = "no.avsc"'), "left.schema: "),
        (MINIMAL.replace('"l"', '"l"\nschema = "no.avsc"'), "no.avsc: no such file"),
        (MINIMAL.replace('"l"', '"l"\nschema = "job.toml"'), "job.toml is not JSON: "),
        (MINIMAL.replace('"r"', '"r"\nfields.id = "number"'), "right.schema: "),
    ],
    ids=lambda value: value[-20:],
)
def test_validate_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = write_job(tmp_path, text)
    assert message in failed(capsys, 2, "validate", "-c", str(path))


def test_the_help_shows_the_commands_in_the_order_of_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_command(["--help"])
    said = capsys.readouterr().out
    assert re.findall("^│ ([a-z]+)  ", said, re.MULTILINE) == [
        "validate", "topics", "doctor", "run", "load", "read", "status", "query", "explain",
        "rejects", "check", "replay", "schema", "watermark", "reset", "reshard", "state", "demo",
    ]  # fmt: skip
    run_command(["read", "--help"])
    said += capsys.readouterr().out
    assert "--follow" in said
    assert "<bool>" not in said, "a flag takes no value"


def test_schemas_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_job(tmp_path)
    assert run_command(["schema", "-c", str(path)]) == 0
    match = json.loads(capsys.readouterr().out)
    assert [field["name"] for field in match["fields"]] == ["start", "end", "left", "right"]
    assert run_command(["schema", "-c", str(path), "--of", "left"]) == 0
    event = json.loads(capsys.readouterr().out)
    assert (event["namespace"], event["name"]) == ("spanjoin", "Event")


def test_parquet_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_job(tmp_path, NOWHERE))
    line = failed(capsys, 2, "read", "-c", path, "--format", "parquet", "--follow")
    assert line.startswith("--format parquet has no --follow")


def test_parquet_is_not_for_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_job(tmp_path, NOWHERE))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = failed(capsys, 2, "read", "-c", path, "--format", "parquet")
    assert line == "--format parquet is not for a terminal: give --output FILE"


@pytest.mark.parametrize(
    ("options", "at_terminal", "answer", "runs"),
    [
        ((), False, None, [False]),
        ((), True, False, [True]),
        ((), True, True, [True, False]),
        (("--yes",), True, None, [False]),
        (("--dry-run",), True, None, [True]),
    ],
)
def test_reset_asks_at_a_terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    at_terminal: bool,
    answer: bool | None,
    runs: list[bool],
) -> None:
    asked: list[str] = []
    dry_runs: list[bool] = []

    def steps(_config: object, *, dry_run: bool) -> list[str]:
        dry_runs.append(dry_run)
        return ["a line"]

    def confirm(question: str) -> bool | None:
        asked.append(question)
        return answer

    monkeypatch.setattr(reset, "reset", steps)
    monkeypatch.setattr(typer, "confirm", confirm)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: at_terminal)
    assert run_command(["reset", "-c", str(write_job(tmp_path)), *options]) == 0
    assert dry_runs == runs
    assert len(asked) == (answer is not None)


def test_a_data_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_job(tmp_path, NOWHERE))
    line = failed(capsys, 2, "load", "-c", path, "--side", "left", str(tmp_path / "no.csv"))
    assert line == f"{tmp_path}/no.csv: cannot be read: No such file or directory"


@pytest.mark.parametrize("command", ["status", "read", "topics", "load"])
def test_an_absent_broker_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    # The time is an argument's default: it is what the commands wait, and 30 s is what it says.
    assert cluster.WAIT_SECONDS == 30
    monkeypatch.setattr(cluster.Cluster.__init__, "__defaults__", (0.5,))
    path = str(write_job(tmp_path, NOWHERE))
    data = tmp_path / "x.csv"
    data.write_text("key\n")
    more = ["--side", "left", str(data)] if command == "load" else []
    started = time.monotonic()
    line = failed(capsys, 1, command, "-c", path, *more)
    assert time.monotonic() - started < 10
    assert line == (
        "no broker answered at 127.0.0.1:1 within 0.5 s (Connection refused): "
        "start it, or correct kafka.bootstrap.servers"
    )


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("a\nb"), 2, "a b"),
        (Crash("full"), 1, "full"),
        (Fenced("lost"), 75, "lost"),
        (OSError(28, "No space left on device"), 1, "[Errno 28] No space left on device"),
        (ValueError("x\ny"), 1, "ValueError: x y; this is a bug: SPANJOIN_TRACEBACK=1 shows where"),
    ],
    ids=["usage", "crash", "fenced", "system", "bug"],
)
def test_every_error_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
    line: str,
) -> None:
    def fail(_path: Path) -> None:
        raise error

    monkeypatch.setattr(cli, "checked_config", fail)
    assert failed(capsys, code, "validate", "-c", "x") == line


def test_a_traceback_is_shown_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_path: Path) -> None:
        secrets.remember("hunter2")
        raise ValueError("password hunter2")

    monkeypatch.setattr(cli, "checked_config", fail)
    monkeypatch.setenv("SPANJOIN_TRACEBACK", "1")
    assert run_command(["validate", "-c", "x"]) == 1
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "in fail" in error
    assert "ValueError: password ***" in error


def test_an_interrupt_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "checked_config", interrupt)
    assert failed(capsys, 1, "validate", "-c", "x") == "interrupted"


def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.run(
        [sys.executable, "-m", "app", "schema", "-c", str(path)],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert process.stderr == ""


def test_exit_codes_are_those_that_are_promised() -> None:
    codes = [kind.exit_code for kind in (SpanjoinError, Crash, UsageError, Fenced)]
    assert codes == [1, 1, 2, 75]


HANGING: Final = """
import time, app.__main__, app.cli
from concurrent.futures import ThreadPoolExecutor

def command(arguments):
    ThreadPoolExecutor(1).submit(time.sleep, 600)
    print("done", end="")
    return 7

app.cli.run_command = command
app.__main__.ENDS_WITHIN_S = 0.3
app.__main__.main()
"""


def test_a_command_ends_although_a_call_of_the_client_hangs() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "done", "")
