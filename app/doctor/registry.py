"""Whether the Schema Registry answers, and has what the job needs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.doctor.finding import Finding, fail, ok, warn
from app.errors import Retry, UsageError
from app.formats import TELL_SCHEMA
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
        known = {side: schemas.known(side) for side in Side}
        left, right = known[Side.LEFT], known[Side.RIGHT]
        untold = left is None or right is None
        taken = untold or schemas.takes_match(match_schema(left, right, schemas.join))
    except Retry as away:
        return [fail(f"registry: {away}", "start it, or correct schema.registry.url")]
    except UsageError as wrong:
        return [fail(f"registry: {wrong}")]
    found = [ok(f"registry: answers at {schemas.address}")]
    for side, schema in known.items():
        if schema is None:
            found.append(warn(f"registry: {schemas.unknown(side)}", TELL_SCHEMA))
            continue
        try:
            Layout(schema, config.fields(side), config.unit, HEADER_SIZE)
        except ValueError as error:
            found.append(
                fail(
                    f"registry: the newest schema of {side.name.lower()} does not fit: {error}",
                    "correct the field map or the units",
                )
            )
    if untold:
        return found
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
