"""Whether the Schema Registry answers, and has what the job needs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.doctor.finding import Finding, fail, ok
from app.errors import Retry, UsageError
from schemas.layout import Layout
from schemas.match_schema import match_schema
from schemas.records import Side
from schemas.registry_codec import HEADER_SIZE

if TYPE_CHECKING:
    from app.config import Config
    from app.formats import JobSchemas


def registry_findings(config: Config, schemas: JobSchemas) -> list[Finding]:
    """What the registry says of the newest schemas of both sides, and of their match."""
    try:
        left, right = newest = [schemas.newest(side) for side in Side]
        taken = schemas.takes_match(match_schema(left, right, schemas.join))
    except Retry as away:
        return [fail(f"registry: {away}", "start it, or correct schema.registry.url")]
    except UsageError as wrong:
        return [fail(f"registry: {wrong}")]
    found = [ok(f"registry: answers at {schemas.address}")]
    for side in Side:
        try:
            Layout(newest[side], config.fields(side), config.unit, HEADER_SIZE)
        except ValueError as error:
            found.append(
                fail(
                    f"registry: the newest schema of {side.name.lower()} does not fit: {error}",
                    "correct the field map or the units",
                )
            )
    subject = config.match_subject
    if taken:
        return [*found, ok(f"registry: subject {subject} takes the match schema")]
    return [
        *found,
        fail(
            f"registry: subject {subject} refuses the match schema of the newest schemas",
            "set its compatibility to NONE, or choose another with schema.subject",
        ),
    ]
