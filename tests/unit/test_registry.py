"""What the registry's client may meet: only the registry's own word rejects a record."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from app.doctor.finding import Level
from app.doctor.registry import registry_findings
from app.errors import Retry, UsageError
from app.formats import JobSchemas, job_schemas, make_codec, side_schema, worker_codec
from app.kafka.registry import NoSchema, Registry
from app.lookups import Answered
from schemas.records import Side
from schemas.registry_codec import Absent, RegistryCodec
from tests.unit.jobs import MINIMAL, job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.config import Config

LOGIN = "me:secret"
EVENT = {"type": "record", "name": "E", "fields": [{"name": "id", "type": "string"}]}


class Server(HTTPServer):
    """Gives the answer that stands for a path, and notes what was written to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answers: dict[str, tuple[int, Any]] = {}
        self.written: list[Any] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        code, answer = self.server.answers.get(path, (404, {"title": "nothing here"}))
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.written.append(json.loads(self.rfile.read(size)))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def config_of(folder: Path, url: str, more: str = "") -> Config:
    table = f'[schema]\nformat = "registry"\nregistry.url = "{url}"\n{more}'
    return job(folder, MINIMAL + table)


@pytest.fixture
def registry(server: Server, tmp_path: Path) -> Registry:
    return Registry(config_of(tmp_path, server.url))


def schema_answer(schema: Any = EVENT, **more: Any) -> tuple[int, Any]:
    return 200, {"schema": json.dumps(schema), **more}


NOT_FOUND = 404, {"error_code": 40403, "message": "Schema 1 not found"}


def test_a_schema_comes_as_it_was_registered(server: Server, registry: Registry) -> None:
    server.answers["/schemas/ids/1"] = schema_answer()
    assert registry.schema(1) == EVENT
    server.answers.clear()
    assert registry.schema(1) == EVENT  # An id never changes its meaning.


def test_what_it_refers_to_comes_with_it(server: Server, registry: Registry) -> None:
    inner = {"type": "fixed", "name": "F", "namespace": "a", "size": 1}
    outer = {**EVENT, "fields": [{"name": "f", "type": "a.F"}]}
    references = [{"name": "a.F", "subject": "f", "version": 3}]
    server.answers["/schemas/ids/1"] = schema_answer(outer, references=references)
    server.answers["/subjects/f/versions/3"] = schema_answer(inner, subject="f", version=3, id=9)
    assert registry.schema(1)["fields"][0]["type"] == {"type": "fixed", "name": "a.F", "size": 1}


def test_only_the_registry_itself_says_that_there_is_none(
    server: Server, registry: Registry
) -> None:
    server.answers["/schemas/ids/1"] = NOT_FOUND
    with pytest.raises(NoSchema, match="which the Schema Registry does not have"):
        registry.schema(1)
    server.answers["/schemas/ids/2"] = schema_answer(schemaType="JSON")
    with pytest.raises(NoSchema, match="which is no Avro schema, but JSON"):
        registry.schema(2)


@pytest.mark.parametrize("code", [401, 403, 404])
def test_no_registry_at_the_address_needs_a_person_at_first_only(
    server: Server, registry: Registry, code: int
) -> None:
    server.answers["/schemas/ids/1"] = code, {"message": "no"}
    with pytest.raises(UsageError, match=f"at {server.url}: it answers {code} .no."):
        registry.schema(1)
    server.answers["/schemas/ids/2"] = NOT_FOUND
    with pytest.raises(NoSchema):
        registry.schema(2)
    with pytest.raises(Retry, match="does not answer"):
        registry.schema(1)


@pytest.mark.parametrize("code", [400, 422])
def test_an_id_that_the_registry_refuses_is_none(
    server: Server, registry: Registry, code: int
) -> None:
    server.answers["/schemas/ids/1"] = code, {"error_code": 42201, "message": "bad id"}
    with pytest.raises(NoSchema, match=r"which the Schema Registry refuses \(bad id\)"):
        registry.schema(1)
    server.answers["/schemas/ids/1"] = code, "what a proxy says"
    with pytest.raises(Retry):
        registry.schema(1)


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503])
def test_anything_else_is_waited_for(server: Server, registry: Registry, code: int) -> None:
    server.answers["/schemas/ids/1"] = code, {"error_code": 50001, "message": "busy"}
    with pytest.raises(Retry, match="busy"):
        registry.schema(1)


def test_a_registry_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    registry = Registry(config_of(tmp_path, f"http://{LOGIN}@127.0.0.1:1"))
    for call in (lambda: registry.schema(1), lambda: registry.register("s", EVENT)):
        with pytest.raises(Retry, match="does not answer") as told:
            call()
        assert f"at {registry.address} does" in str(told.value)
        assert "secret" not in str(told.value)


def test_a_schema_is_registered(server: Server, registry: Registry) -> None:
    server.answers["/subjects/s/versions"] = 200, {"id": 12}
    assert registry.register("s", EVENT) == 12
    assert json.loads(server.written[0]["schema"]) == EVENT


@pytest.mark.parametrize("code", [409, 422])
def test_a_schema_that_is_refused_needs_a_person(
    server: Server, registry: Registry, code: int
) -> None:
    server.answers["/subjects/s/versions"] = code, {"error_code": code, "message": "incompatible"}
    with pytest.raises(UsageError, match=r"for subject s \(incompatible\): set the subject's"):
        registry.register("s", EVENT)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('registry."no.such" = 1\n', "schema.registry: Unrecognized properties: no.such"),
        ('registry."max.retries" = "many"\n', "max.retries must be a number"),
        ('registry."ssl.ca.location" = "/no/such"\n', "schema.registry: "),
    ],
)
def test_what_the_client_does_not_know_is_told(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Registry(config_of(tmp_path, "http://localhost:1", more))
    with pytest.raises(UsageError) as told:
        Registry(config_of(tmp_path, f"{LOGIN}@localhost"))
    assert "secret" not in str(told.value)


def test_numbers_may_come_as_texts(tmp_path: Path) -> None:
    more = 'registry."max.retries" = "2"\nregistry.timeout = "0.5"\n'
    assert Registry(config_of(tmp_path, "http://localhost:1", more)).address == "http://localhost:1"


def test_new_records_have_the_schema_of_file_or_subject(server: Server, tmp_path: Path) -> None:
    config = config_of(tmp_path, server.url)
    schemas = JobSchemas(config, Registry(config))
    server.answers["/schemas/ids/1"] = NOT_FOUND
    assert schemas.by_id(1) == Absent(
        "written with schema 1, which the Schema Registry does not have"
    )
    absent = 404, {"error_code": 40401, "message": "no such subject"}
    server.answers["/subjects/l-value/versions/latest"] = absent
    server.answers["/subjects/l-value/versions"] = 200, {"id": 4}
    assert schemas.newest(Side.LEFT)["name"] == "Event"
    assert not server.written
    schema_id, schema = schemas.writer(Side.LEFT)
    assert (schema_id, schema["name"]) == (4, "Event")
    server.answers["/subjects/r-value/versions/latest"] = schema_answer(id=5, version=1)
    assert schemas.newest(Side.RIGHT) == EVENT
    assert schemas.writer(Side.RIGHT) == (5, EVENT)
    server.answers["/subjects/out-value/versions"] = 200, {"id": 6}
    assert schemas.register_match(EVENT) == 6
    server.answers["/subjects/r-value/versions/latest"] = schema_answer(id=5, schemaType="PROTOBUF")
    with pytest.raises(UsageError, match="subject r-value has a schema which is no Avro schema"):
        schemas.writer(Side.RIGHT)


def test_doctor_asks_the_registry(server: Server, tmp_path: Path) -> None:
    config = config_of(tmp_path, server.url)
    schemas = JobSchemas(config, Registry(config))
    server.answers["/subjects/l-value/versions/latest"] = 503, {"message": "busy"}
    (away,) = registry_findings(config, schemas)
    assert away.line.startswith(f"fail registry: the Schema Registry at {server.url} does not")
    event = side_schema(config, Side.LEFT)
    server.answers["/subjects/l-value/versions/latest"] = schema_answer(event, id=4, version=1)
    server.answers["/subjects/r-value/versions/latest"] = schema_answer(id=5, version=1)
    compatible = "/compatibility/subjects/out-value/versions/latest"
    server.answers[compatible] = 200, {"is_compatible": True}
    assert [finding.line for finding in registry_findings(config, schemas)] == [
        f"ok   registry: answers at {server.url}",
        (
            "fail registry: the newest schema of right does not fit: the schema has no field "
            "'end': correct the field map or the units"
        ),
        "ok   registry: subject out-value takes the match schema",
    ]
    server.answers["/subjects/r-value/versions/latest"] = schema_answer(event, id=4, version=1)
    server.answers[compatible] = 200, {"is_compatible": False}
    told = registry_findings(config, schemas)[-1].line
    assert told.startswith("fail registry: subject out-value refuses the match schema")
    server.answers[compatible] = 404, {"error_code": 40401, "message": "no such subject"}
    assert registry_findings(config, schemas)[-1].level is Level.OK


def test_a_side_that_nobody_has_written_to(server: Server, tmp_path: Path) -> None:
    """Its schema is not known yet, unless the default event may be meant."""
    table = f'[schema]\nformat = "registry"\nregistry.url = "{server.url}"\n'
    config = job(tmp_path, MINIMAL.replace('"l"', '"l"\nfields.id = "no"') + table)
    absent = 404, {"error_code": 40401, "message": "no such subject"}
    for name in ("l-value", "r-value"):
        server.answers[f"/subjects/{name}/versions/latest"] = absent
    schemas = JobSchemas(config, Registry(config))
    said = "registry: the Schema Registry has no schema of {}, subject {}-value, yet: a producer"
    told = [finding.line for finding in registry_findings(config, schemas)]
    assert told[0] == f"ok   registry: answers at {server.url}"
    assert [line.partition(" registers")[0] for line in told[1:]] == [
        f"warn {said.format('left', 'l')}",
        f"warn {said.format('right', 'r')}",
    ]
    # A worker goes on with it: of an outer join's unmatched rows it is the side that is missing.
    assert schemas.newest(Side.LEFT)["name"] == "Event"
    codec = make_codec(config, sure=True)
    for ask in (lambda: codec.side_schema(Side.LEFT), codec.match_schema):
        with pytest.raises(UsageError, match="no schema of left, subject l-value, yet"):
            ask()
    with pytest.raises(UsageError, match="no schema of left, subject l-value, yet"):
        JobSchemas(config, Registry(config), sure=True).writer(Side.LEFT)
    assert not server.written
    assert codec.side_schema(Side.RIGHT)["name"] == "Event"


def test_a_file_comes_before_the_subject(server: Server, tmp_path: Path) -> None:
    (tmp_path / "own.avsc").write_text(json.dumps(EVENT))
    table = f'[schema]\nformat = "registry"\nregistry.url = "{server.url}"\n'
    config = job(tmp_path, MINIMAL.replace('"l"', '"l"\nschema = "own.avsc"') + table)
    schemas = JobSchemas(config, Registry(config))
    server.answers["/subjects/l-value/versions"] = 200, {"id": 7}
    assert schemas.newest(Side.LEFT) == EVENT
    assert schemas.writer(Side.LEFT) == (7, EVENT)


def test_a_job_has_a_codec_without_asking_anybody(tmp_path: Path) -> None:
    config = config_of(tmp_path, "http://127.0.0.1:1")
    assert isinstance(worker_codec(config), RegistryCodec)
    assert isinstance(make_codec(config), Answered)
    assert job_schemas(job(tmp_path)) is None
