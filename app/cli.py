"""The command line. Each command is a few lines here and a module of its own behind it.

Invariant: whatever goes wrong is told in one line on standard error that names the thing and the
mend, with the exit code of its kind (see `app.errors`); a traceback is shown only when asked for
by SPANJOIN_TRACEBACK=1.
"""

# Commands import what they need when they run: `spanjoin --help` must not wait for pyarrow.
# ruff: noqa: PLC0415
# A flag of a command is a parameter with a default: that is how typer is told of it.
# ruff: noqa: FBT002

from __future__ import annotations

import json
import os
import sys
import traceback
from enum import StrEnum
from pathlib import Path  # noqa: TC003 (typer reads annotations)
from typing import Annotated, Final

import typer

from app import cli_data
from app.errors import EXIT_CRASH, EXIT_DONE, EXIT_USAGE, Crash, SpanjoinError, UsageError
from app.help import Command, Group
from app.options import ConfigOption, DataFormat, Format, Partitioner, SideName, checked_config
from app.secrets import hide
from schemas.records import Side

_INTERRUPTED: Final = 130
"""What typer makes of Ctrl-C."""
# Errors of the command line itself; typer exports only some of its subclasses.
_WrongUse: Final[type[Exception]] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="spanjoin",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
state = typer.Typer(cls=Group, no_args_is_help=True, help="Look after the local state.")
app.add_typer(state, name="state")
for command in cli_data.COMMANDS:
    app.command()(command)


class SchemaOf(StrEnum):
    """Whose schema is printed."""

    MATCH = "match"
    LEFT = "left"
    RIGHT = "right"


def _show_version(wanted: bool) -> None:  # noqa: FBT001 (typer's callback)
    if wanted:
        from importlib.metadata import version

        from native import loops

        how = "in Python" if loops is None else "compiled"
        typer.echo(f"spanjoin {version('spanjoin')} (inner loops: {how})")
        raise typer.Exit


@app.callback()
def spanjoin(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Join two Kafka topics on key and interval overlap."""


@app.command()
def run(
    config: ConfigOption,
    workers: Annotated[
        int | None, typer.Option(help="Start this many workers, each a process of its own.", min=1)
    ] = None,
    accept_bounds: Annotated[
        bool,
        typer.Option(
            "--accept-bounds",
            help="Take a larger lateness or interval over existing state: rows that were already "
            "dropped cannot come back, so matches with them will be missing.",
        ),
    ] = False,
) -> int:
    """Run one worker, or several, until SIGTERM or SIGINT."""
    job = checked_config(config)
    if workers is None:
        from app.run import run_worker

        return run_worker(job, accept_bounds=accept_bounds)
    from app.supervise import run_workers

    return run_workers(job, workers, ["--accept-bounds"] if accept_bounds else [])


@app.command()
def topics(
    config: ConfigOption,
    partitions: Annotated[
        int | None,
        typer.Option(help="Partitions of inputs that do not exist yet.", min=1, max=100_000),
    ] = None,
) -> int:
    """Create the topics that are missing, and say what differs from what it should be."""
    from app.kafka.cluster import Cluster
    from app.topics import create_topics, describe

    job = checked_config(config)
    done = create_topics(Cluster(job), job, partitions, create_inputs=True)
    if done.problems:
        raise UsageError("; ".join(done.problems))
    for line in describe(job, done):
        typer.echo(line)
    if done.differences:
        raise UsageError("; ".join(difference.text for difference in done.differences))
    return EXIT_DONE


@app.command()
def validate(config: ConfigOption) -> int:
    """Check the configuration alone, without the cluster."""
    from app.formats import make_codec

    job = checked_config(config)
    make_codec(job)
    unit = "" if job.unit == "none" else f" {job.unit}"
    typer.echo(
        f"{config}: valid: {job.left.topic} x {job.right.topic} -> {job.output.topic}, "
        f"allowed lateness {job.lateness}{unit}, max interval {job.max_interval}{unit}"
    )
    return EXIT_DONE


@app.command()
def schema(
    config: ConfigOption,
    of: Annotated[SchemaOf, typer.Option(help="Whose schema.")] = SchemaOf.MATCH,
) -> int:
    """Print the schema of the matches, or of a side: Avro's, or for JSON a JSON Schema."""
    from app.formats import make_codec

    codec = make_codec(checked_config(config), sure=True)
    if of is SchemaOf.MATCH:
        printed: object = codec.match_schema()
    else:
        printed = codec.side_schema(Side[of.name])
    typer.echo(json.dumps(printed, indent=2, ensure_ascii=False))
    return EXIT_DONE


@app.command()
def load(
    config: ConfigOption,
    data: Annotated[Path, typer.Argument(help="The file; - is standard input.")],
    side: Annotated[SideName, typer.Option(help="Into which side.")],
    key: Annotated[str, typer.Option(help="The column of the join key.")] = "key",
    format_: Annotated[
        DataFormat | None, typer.Option("--format", help="If the file's name does not say it.")
    ] = None,
) -> int:
    """Write CSV, JSON lines or Parquet into a side, one record for each row."""
    from app.loading import load_file

    job = checked_config(config)
    typer.echo(load_file(job, Side[side.name], data, key, format_))
    return EXIT_DONE


@app.command()
def read(
    config: ConfigOption,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="How to write them; unless told, as the output's name says, else as a table.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with each match and retraction as it happens.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Show at most so many, with --follow before the changes; a table shows 20 unless "
            "told.",
            min=0,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
) -> int:
    """Show the results: committed only, one row for each match that is live."""
    from app.reading import Request, form_for, read_matches

    job = checked_config(config)
    read_matches(job, Request(form_for(format_, output), follow, limit, output))
    return EXIT_DONE


@app.command()
def status(
    config: ConfigOption,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> int:
    """Show each lane: owner, epoch, phase, watermarks, positions, lag, rows, bytes."""
    from app.status import job_status, show

    job = checked_config(config)
    found = job_status(job)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        show(job, found)
    return EXIT_DONE


@app.command()
def reset(
    config: ConfigOption,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, at a terminal.")] = False,
) -> int:
    """Start over: state, positions, rejects and results go, and the next run reads it all again."""
    from app.reset import reset as steps

    job = checked_config(config)
    if sys.stdin.isatty() and not (yes or dry_run):
        for line in steps(job, dry_run=True):
            typer.echo(line)
        if not typer.confirm(f"all of that goes: start {job.name} over?"):
            return EXIT_DONE
    for line in steps(job, dry_run=dry_run):
        typer.echo(line)
    return EXIT_DONE


@app.command()
def reshard(
    config: ConfigOption,
    partitions: Annotated[
        int, typer.Option(help="Partitions that both inputs shall have, or have.", min=1)
    ],
    accept_late: Annotated[
        bool,
        typer.Option(
            "--accept-late",
            help="Bring watermarks forward by more than the allowed lateness where lanes need it: "
            "records of keys that are behind are rejected as late.",
        ),
    ] = False,
    partitioner: Annotated[
        Partitioner | None,
        typer.Option(help="How producers place keys, if the inputs do not tell."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False,
) -> int:
    """Give the job more lanes: the inputs more partitions, and each row to its key's new lane."""
    from app import log
    from app.reshard import Request
    from app.reshard import reshard as steps

    job = checked_config(config)
    log.configure(log.beside_results(job.log))
    request = Request(partitions, accept_late, str(partitioner) if partitioner else None)
    for line in steps(job, request, dry_run=dry_run):
        typer.echo(line)
    return EXIT_DONE


@app.command()
def query(
    config: ConfigOption,
    key: Annotated[str, typer.Argument(help="The join key, as text.")],
    key_hex: Annotated[
        bool, typer.Option("--key-hex", help="The key is given in hexadecimal.")
    ] = False,
    linearizable: Annotated[
        bool,
        typer.Option(
            "--linearizable",
            help="Not older than anything committed before: the owner proves that it still is.",
        ),
    ] = False,
    lane: Annotated[
        int | None,
        typer.Option(help="The key's partition, if not where Java's partitioner puts it.", min=0),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> int:
    """Ask the worker that owns a key's lane for its rows and live matches."""
    from app.query import Query, ask, parse_key, show

    job = checked_config(config)
    asked = Query(parse_key(key, as_hex=key_hex), linearizable, lane)
    answer = ask(job, asked)
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        show(job, asked, answer)
    return EXIT_DONE


@state.command()
def verify(
    config: ConfigOption,
    lane: Annotated[int | None, typer.Option(help="Only this one.", min=0)] = None,
) -> int:
    """Compare a stopped worker's stores with their directories and with the changelog."""
    from app.verify import verify as verdicts

    job = checked_config(config)
    wrong: list[int] = []
    for verdict in verdicts(job, lane):
        for line in verdict.differences or [verdict.line]:
            typer.echo(f"lane {verdict.lane} in {verdict.directory.parent}: {line}")
        if verdict.differences:
            wrong.append(verdict.lane)
    if wrong:
        names = ", ".join(map(str, sorted(set(wrong))))
        raise Crash(
            f"the state in {job.state.dir} differs in lane {names}: delete its directory there, "
            f"the changelog brings it back"
        )
    return EXIT_DONE


@app.command()
def demo() -> int:
    """Join a year of New York's flights with the weather, and compare with a database."""
    from app.demo import run_demo

    return run_demo()


for registered in (*app.registered_commands, *state.registered_commands):
    registered.cls = Command


def run_command(arguments: list[str]) -> int:
    """Run one command line; returns its exit code."""
    try:
        code = app(arguments, prog_name="spanjoin", standalone_mode=False)
    except SpanjoinError as error:
        return _complain(error.line, error.exit_code)
    except _WrongUse as error:
        text = _message(error)  # none where the help was shown instead
        context = getattr(error, "ctx", None)  # of the command, as far as it is known
        where = context.command_path if context else "spanjoin"
        return _complain(f"{text}; see: {where} --help", EXIT_USAGE) if text else EXIT_USAGE
    except BrokenPipeError:
        # Whoever read us has had enough. Python would complain once more on its own flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CRASH
    except Exception as error:  # noqa: BLE001 (whatever it is, it is told in one line)
        if os.environ.get("SPANJOIN_TRACEBACK"):
            print(hide(traceback.format_exc()), file=sys.stderr, end="")  # noqa: T201
        return _complain(_unexpected(error), EXIT_CRASH)
    if code == _INTERRUPTED:
        return _complain("interrupted", EXIT_CRASH)
    return code or EXIT_DONE


def _complain(line: str, code: int) -> int:
    print(f"spanjoin: {hide(line)}", file=sys.stderr)  # noqa: T201 (the one place that prints errors)
    return code


def _message(error: Exception) -> str:
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    return " ".join(text.split()).rstrip(".")


def _unexpected(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        return text
    return f"{type(error).__name__}: {text}; this is a bug: SPANJOIN_TRACEBACK=1 shows where"
