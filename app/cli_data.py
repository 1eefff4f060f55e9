"""Commands that look after somebody's data: whether it can meet, what was not taken, and why."""

# As in `app.cli`: commands import what they need when they run, and a flag is a parameter.
# ruff: noqa: PLC0415
# ruff: noqa: FBT002

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path  # noqa: TC003 (typer reads annotations)
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.errors import EXIT_DONE, Crash, UsageError
from app.options import ConfigOption, DataFormat, SideName, checked_config
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.rejects import Choice


class ListFormat(StrEnum):
    """How a list is written."""

    TABLE = "table"
    JSONL = "jsonl"


def rejects(  # noqa: PLR0913, PLR0917 (its filters)
    config: ConfigOption,
    reason: Annotated[
        list[str] | None, typer.Option(help="Only of this reason; may be given several times.")
    ] = None,
    side: Annotated[SideName | None, typer.Option(help="Only of this side.")] = None,
    partition: Annotated[
        int | None, typer.Option(help="Only of this partition of the input.", min=0)
    ] = None,
    since: Annotated[
        str, typer.Option(help="Rejected then or later: 2025-03-03T10:00 (UTC), or 2h ago.")
    ] = "",
    until: Annotated[str, typer.Option(help="Rejected before then.")] = "",
    key: Annotated[str | None, typer.Option(help="Only of this key.")] = None,
    key_hex: Annotated[
        str | None, typer.Option("--key-hex", help="The same in hexadecimal.")
    ] = None,
    at: Annotated[
        str, typer.Option(help="Only this one: PARTITION/OFFSET in the rejects topic.")
    ] = "",
    limit: Annotated[
        int | None, typer.Option(help="The newest so many; a table shows 20 unless told.", min=0)
    ] = None,
    format_: Annotated[
        ListFormat, typer.Option("--format", help="How to write them.")
    ] = ListFormat.TABLE,
    count: Annotated[bool, typer.Option("--count", help="Only how many there are.")] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Write them into their inputs once more.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also those that were replayed and rejected again.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Replay without asking.")] = False,
) -> int:
    """Show what was rejected and why; replay what was chosen."""
    job = checked_config(config)
    choice = _choice(reason, side, partition, (since, until), key, key_hex, at)
    if replay:
        if count or limit is not None:
            raise UsageError("--replay takes all that is chosen: without --count and --limit")
        from app.replaying import Wish, replay_rejects

        wish = Wish(choice, again, (lambda _: True) if yes else _asked)
        replay_rejects(job, wish, typer.echo)
    elif count:
        from app.rejects import count_rejects

        count_rejects(job, choice, format_)
    else:
        from app.rejects import list_rejects

        list_rejects(job, choice, format_, limit)
    return EXIT_DONE


def _choice(  # noqa: PLR0913, PLR0917 (as many as filters)
    reason: list[str] | None,
    side: SideName | None,
    partition: int | None,
    times: tuple[str, str],
    key: str | None,
    key_hex: str | None,
    at: str,
) -> Choice:

    from app.query import parse_key
    from app.rejects import Choice, parse_place, parse_reason, parse_time

    if key is not None and key_hex is not None:
        raise UsageError("--key and --key-hex name two keys: give one of them")
    now_ms = int(time.time() * 1000)
    since_ms, until_ms = (
        parse_time(option, text, now_ms) if text else None
        for option, text in zip(("--since", "--until"), times, strict=True)
    )
    named = key if key_hex is None else key_hex
    return Choice(
        reasons=frozenset(map(parse_reason, reason)) if reason else None,
        side=Side[side.name] if side else None,
        partition=partition,
        since_ms=since_ms,
        until_ms=until_ms,
        key=None if named is None else parse_key(named, as_hex=key_hex is not None),
        place=parse_place(at) if at else None,
    )


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"{question} there is nobody to ask: say --yes")
    return typer.confirm(question)


def doctor(config: ConfigOption) -> int:
    """Say whether the job can run on this cluster, and whether the rows of its inputs can meet."""
    from app.doctor.finding import Level
    from app.doctor.run import examine

    job = checked_config(config)
    failed = 0
    for finding in examine(job):
        typer.echo(finding.line)
        failed += finding.level is Level.FAIL
    if failed:
        need = "needs" if failed == 1 else "need"
        raise UsageError(
            f"{failed} of these findings {need} a person: what begins with fail, see above"
        )
    return EXIT_DONE


def replay(  # noqa: PLR0913, PLR0917 (its options)
    config: ConfigOption,
    left: Annotated[Path, typer.Argument(help="The left side's rows.")],
    right: Annotated[Path, typer.Argument(help="The right side's rows; - is standard input.")],
    key: Annotated[str, typer.Option(help="The column of the join key.")] = "key",
    format_: Annotated[
        DataFormat | None, typer.Option("--format", help="If the files' names do not say it.")
    ] = None,
    partitions: Annotated[
        int, typer.Option(help="As if the topics had so many.", min=1, max=1_000)
    ] = 1,
    changes: Annotated[
        bool, typer.Option("--changes", help="Each match and retraction, in their order.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    rejects: Annotated[Path | None, typer.Option(help="Write rejects to this file.")] = None,
) -> int:
    """Join two files without a broker; write the matches as JSON lines."""
    from app.replay import Request, replay_files

    job = checked_config(config)
    said = replay_files(
        job, Request((left, right), key, format_, partitions, changes, output, rejects)
    )
    if said:
        more = "" if rejects else " (--rejects FILE writes them)"
        typer.echo(f"{said}{more}", err=True)
    return EXIT_DONE


def check(
    config: ConfigOption,
    limit: Annotated[int, typer.Option(help="Name so many differences of each kind.", min=0)] = 20,
) -> int:
    """Compare the output with a batch join over what the job has read; names each difference."""
    from app.checking.run import check_output

    job = checked_config(config)
    verdict = check_output(job, limit)
    for note in verdict.notes:
        typer.echo(f"note: {note}")
    for name, match in verdict.examples:
        typer.echo(f"{name}: {match}")
    what = "matches" if job.join.type == "inner" else "matches and unmatched rows"
    typer.echo(f"{verdict.expected} {what} expected, {verdict.live} of them in {job.output.topic}")
    if not verdict.equal:
        counts = ", ".join(f"{count} {name}" for name, count in verdict.faults.items() if count)
        raise Crash(f"{job.output.topic} is not what a batch join says: {counts}")
    return EXIT_DONE


def explain(  # noqa: PLR0913, PLR0917 (two rows, and where to look)
    config: ConfigOption,
    left: Annotated[str, typer.Argument(help="The id of a left row.", metavar="LEFT_ID")],
    right: Annotated[str, typer.Argument(help="The id of a right row.", metavar="RIGHT_ID")],
    key: Annotated[str, typer.Option(help="The join key, as text.")],
    key_hex: Annotated[
        bool, typer.Option("--key-hex", help="The key is given in hexadecimal.")
    ] = False,
    lane: Annotated[
        int | None,
        typer.Option(help="The key's partition, if not where Java's partitioner puts it.", min=0),
    ] = None,
    scan: Annotated[
        int, typer.Option(help="Look at so many of the newest offsets of a partition.", min=0)
    ] = 200_000,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> int:
    """Say why two rows match or do not: which rule decided, and by which figures."""
    from app.explain import Asked, explain_pair, show
    from app.explain import as_json as programs
    from app.query import parse_key

    job = checked_config(config)
    asked = Asked(parse_key(key, as_hex=key_hex), left, right, lane, scan)
    explained = explain_pair(job, asked)
    if as_json:
        typer.echo(json.dumps(programs(explained)))
    else:
        show(explained)
    return EXIT_DONE


def watermark(
    config: ConfigOption,
    at: Annotated[str, typer.Argument(help="A time, as a row for load has it.", metavar="TIME")],
    side: Annotated[SideName, typer.Option(help="Of which side.")],
) -> int:
    """Say that a side has come that far: a WATERMARK event into each of its partitions."""
    from app.watermark import send_watermark

    job = checked_config(config)
    typer.echo(send_watermark(job, Side[side.name], at))
    return EXIT_DONE


COMMANDS: Final[tuple[Callable[..., int], ...]] = (
    rejects, doctor, replay, check, explain, watermark,
)  # fmt: skip
