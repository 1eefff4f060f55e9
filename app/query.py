"""`query`: what the owner of a key's lane says of the key.

The owner is found, not configured: it advertises an address in the checkpoints it commits, and the
group says whether it is still a member. While the lane moves nobody can answer; that is waited for.

Invariant: an answer is the owner's own, and whole. This command reads no state by itself.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_from_bytes

from rich.table import Table
from rich.text import Text

from app.access import client_context
from app.console import console
from app.errors import Crash, UsageError
from app.kafka.cluster import Cluster
from app.kafka.scan import Scanner
from app.rows import SIDES, Words, counted, moment, printable
from app.status import last_checkpoint, member_of
from app.topics import missing_input
from schemas.partition import lane_of
from schemas.records import Side

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.config import Config
    from app.settings import HttpTable

WAIT_S: Final = 30.0
NOBODY_S: Final = 3.0
"""How long a group without any member is waited for: a worker may be starting again."""
ASK_S: Final = 5.0
"""Longer than an owner's turn takes; one that sleeps is asked for anew after it."""
PAUSE_S: Final = 0.2


class Query(NamedTuple):
    """A key to ask for; `lane` where the producers place it otherwise than Java's do.

    With `pair`, all that the state has of a left and a right row is asked for, see `app.timeline`.
    """

    key: bytes
    linearizable: bool
    lane: int | None
    pair: tuple[str, str] | None = None

    @property
    def target(self) -> str:
        """What is asked of a worker's HTTP server, but for the lane."""
        key = quote_from_bytes(self.key, safe="")
        if self.pair is not None:
            left, right = (quote_from_bytes(row_id.encode(), safe="") for row_id in self.pair)
            return f"/timeline?key={key}&left={left}&right={right}"
        consistency = "linearizable" if self.linearizable else "committed"
        return f"/matches?key={key}&consistency={consistency}"


class NotNow(Exception):
    """There is no answer yet, for this reason; `hopeless` if waiting helps only for a moment."""

    def __init__(self, reason: str, *, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


class Owner(NamedTuple):
    """Who answers for a lane, and where."""

    worker: str
    address: str


def parse_key(text: str, *, as_hex: bool) -> bytes:
    """A key as it is written on the command line. Raises UsageError."""
    if not as_hex:
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(f"--key-hex takes pairs of hexadecimal digits, not {text!r}") from None


def ask(config: Config, query: Query) -> dict[str, Any]:
    """The owner's answer, with `owner` added. Raises UsageError, Crash."""
    search = Search(config, query)
    try:
        return patiently(search)
    finally:
        search.close()


def patiently(search: Search) -> dict[str, Any]:
    """The same, of a search that has begun."""
    began = time.monotonic()
    while True:
        waited = time.monotonic() - began
        try:
            return search.answer()
        except NotNow as why:
            if why.hopeless and waited > NOBODY_S:
                raise Crash(str(why)) from None
            if waited > WAIT_S:
                line = f"lane {search.lane} gave no answer within {WAIT_S:g} s: {why}"
                raise Crash(line) from None
        time.sleep(PAUSE_S)


class Search:
    """Finds the owner of a lane again each time, and asks it."""

    def __init__(self, config: Config, query: Query) -> None:
        self._config = config
        self._query = query
        self.cluster = Cluster(config)
        left = self.cluster.topics([config.left.topic]).get(config.left.topic)
        if left is None:
            raise UsageError(missing_input(config, Side.LEFT))
        self.lane = lane_of(query.key, left.partitions) if query.lane is None else query.lane
        if self.lane >= left.partitions:
            raise UsageError(f"there is no lane {self.lane}: {config.left.topic} has "
                             f"{left.partitions} partitions")  # fmt: skip
        self.scanner = Scanner(config)

    def close(self) -> None:
        """Let the client go."""
        self.scanner.close()

    def answer(self) -> dict[str, Any]:
        """Ask who owns the lane now. Raises NotNow."""
        owner = self._owner()
        found = _get(owner, self.lane, self._query, self._config.http)
        return {**found, "owner": owner.worker}

    def _owner(self) -> Owner:
        config = self._config
        members = self.cluster.members(config.name)
        if not members:
            line = f"no worker of {config.name} runs: start one with spanjoin run -c {config.path}"
            raise NotNow(line, hopeless=True)
        member = member_of(self.lane, config.left.topic, members)
        topic = config.changelog_topic
        if member is None or topic not in self.cluster.topics([topic]):
            raise NotNow("the lane is given to no worker yet")
        extent = self.cluster.extents(topic, self.lane + 1)[self.lane]
        checkpoint = last_checkpoint(self.scanner, topic, self.lane, extent)
        if checkpoint is None or checkpoint.released or checkpoint.owner != member.client_id:
            raise NotNow(f"worker {member.client_id} takes it over")
        return Owner(checkpoint.owner, checkpoint.address)


def _get(owner: Owner, lane: int, query: Query, http_table: HttpTable) -> dict[str, Any]:
    """Ask a worker's HTTP server. Raises NotNow where it may come right, else Crash, UsageError."""
    if not owner.address:
        raise UsageError(f"worker {owner.worker}, which runs lane {lane}, has no HTTP server: set "
                         f"http.port and start it again")  # fmt: skip
    host, _, port = owner.address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"worker {owner.worker} advertises {owner.address!r}, which is not "
                         f"host:port: correct http.advertised")  # fmt: skip
    connection = _connection(host.strip("[]"), int(port), http_table)
    try:
        connection.request("GET", f"{query.target}&lane={lane}", headers=_headers(http_table))
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    except ssl.SSLCertVerificationError as error:
        raise UsageError(f"worker {owner.worker} at {owner.address} is not trusted "
                         f"({error.verify_message}): set http.tls_ca") from None  # fmt: skip
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise NotNow(f"worker {owner.worker} at {owner.address}: {reason}") from None
    finally:
        connection.close()
    where = f"worker {owner.worker} at {owner.address}"
    match response.status:
        case HTTPStatus.OK:
            return _decoded(text, where)
        case HTTPStatus.SERVICE_UNAVAILABLE:
            raise NotNow(f"{where}: {text.strip()}")
        case HTTPStatus.UNAUTHORIZED:
            raise UsageError(f"{where} wants another http.token than this configuration has")
        case HTTPStatus.REQUEST_URI_TOO_LONG:
            raise UsageError(f"a key of {len(query.key)} bytes is too long to be asked for")
        case _:
            raise Crash(f"{where} answers {response.status}: {text.strip()}")


def _connection(host: str, port: int, http_table: HttpTable) -> http.client.HTTPConnection:
    context = client_context(http_table)
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=ASK_S)
    return http.client.HTTPSConnection(host, port, timeout=ASK_S, context=context)


def _headers(http_table: HttpTable) -> dict[str, str]:
    return {"Authorization": f"Bearer {http_table.token}"} if http_table.token else {}


def _decoded(text: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Crash(f"{where} is no worker: it answers {text[:80]!r}")
    return found


def show(config: Config, query: Query, answer: Mapping[str, Any]) -> None:
    """Print the rows of both sides, then their matches."""
    unit, words = config.unit, Words(config)
    watermark = answer["watermark"]
    at = "-" if watermark is None else moment(watermark, unit)
    key = printable(query.key.decode("utf-8", "backslashreplace"))
    title = f"{key}: lane {answer['lane']}, epoch {answer['epoch']}, watermark {at}"
    out = console()
    # Above the tables, not their title: that would be wrapped where they are narrow.
    out.print(Text(title), soft_wrap=True)
    rows = Table()
    for heading in ("side", "interval", "row"):
        rows.add_column(heading, overflow="fold")
    for side in SIDES:
        for row in answer["rows"][side]:
            # As text, so that no id or payload is taken for the table's own mark-up.
            said = Text(words.record(side, row["record"]))
            rows.add_row(side, _interval(row, unit), said)
    if not rows.row_count:
        out.print(
            "no live rows of this key: those past their horizon are not shown, `spanjoin explain` "
            "looks further; producers that place keys otherwise than Java's need --lane",
            soft_wrap=True,
        )
        return
    out.print(rows)
    out.print(counted(len(answer["matches"]), "match"))
    if not answer["matches"]:
        return
    matches = Table()
    for heading in ("overlap", *SIDES):
        matches.add_column(heading, overflow="fold")
    for match in answer["matches"]:
        matches.add_row(_interval(match, unit), *(Text(printable(match[side])) for side in SIDES))
    out.print(matches)


def _interval(row: Mapping[str, Any], unit: str) -> str:
    return f"{moment(row['start'], unit)} - {moment(row['end'], unit)}"
