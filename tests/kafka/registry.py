"""A real Schema Registry: Apicurio's, with Confluent's interface, as a process of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from app.broker.guard import Guard
from app.broker.interface import log_tail
from app.broker.jars import fetched, find_java
from app.broker.process import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "3.3.2"
FETCHED: Final = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
JAVA_VERSION_MIN: Final = 21
JVM_FOLDER: Final = Path("/usr/lib/jvm")
START_TIMEOUT_S: Final = 120.0
OPTIONS: Final = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class NoRegistry(Exception):
    """None can be started here; the text says what is missing."""


class RegistryProcess:
    """The registry, on a port of 127.0.0.1; its schemas are gone when it stops."""

    def __init__(self) -> None:
        """Raises NoRegistry."""
        java = _java(os.environ)
        if java is None:
            raise NoRegistry(f"no Java {JAVA_VERSION_MIN} or newer for the Schema Registry")
        app = fetched(
            f"apicurio-{VERSION}",
            "157 MB",
            lambda _, target: ["dependency:unpack", FETCHED, f"-DoutputDirectory={target}"],
            os.environ,
            print,
        )
        if app is None:
            raise NoRegistry("no Maven to fetch the Schema Registry with")
        self.directory = Path(tempfile.mkdtemp(prefix="spanjoin-registry-")).resolve()
        self._guard = Guard(self.directory)
        port, management = free_ports(2)
        self.url = f"http://{HOST}:{port}/apis/ccompat/v7"
        command = [
            java, *OPTIONS, f"-Djava.io.tmpdir={self.directory}",
            f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}",
            f"-Dquarkus.management.host={HOST}", f"-Dquarkus.management.port={management}",
            "-jar", str(app / "quarkus-run.jar"),
        ]  # fmt: skip
        self.log = self.directory / "registry.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._guard.watch(self._process.pid)
        self.client = SchemaRegistryClient({"url": self.url, "timeout": 30})
        try:
            self._await_start()
        except BaseException:
            self.stop()
            raise

    def _await_start(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                # Its first answer takes seconds where the machine is busy.
                with urllib.request.urlopen(f"{self.url}/subjects", timeout=30):
                    return
            except OSError:
                text = log_tail(self.log.read_text(errors="replace"))
                assert self._process.poll() is None, text
                assert time.monotonic() < deadline, text
                time.sleep(0.1)

    def register(
        self, subject: str, schema: Any, referred: Mapping[str, SchemaReference] | None = None
    ) -> int:
        """The id of a schema under a subject, which may name types of others."""
        references = list((referred or {}).values())
        return self.client.register_schema(subject, Schema(json.dumps(schema), "AVRO", references))

    def register_referred(self, name: str, schema: Any) -> SchemaReference:
        """Register a type of this name under a subject of its own, for others to refer to."""
        self.register(name, schema)
        return SchemaReference(name, name, 1)

    def encoded(self, schema_id: int, record: Mapping[str, Any], schema: Any = None) -> bytes:
        """A record as any producer with a registry writes it; `schema` is the whole of it."""
        body = BytesIO()
        parsed = self._parsed(schema_id) if schema is None else fastavro.parse_schema(schema)
        fastavro.schemaless_writer(body, parsed, record)
        return b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()

    def decoded(self, value: bytes) -> Any:
        """What any consumer with a registry reads."""
        assert value[:1] == b"\0"
        body = BytesIO(value[5:])
        found = fastavro.schemaless_reader(
            body, self._parsed(int.from_bytes(value[1:5], "big")), None
        )
        assert body.read() == b""
        return found

    def _parsed(self, schema_id: int) -> Any:
        return fastavro.parse_schema(json.loads(self.client.get_schema(schema_id).schema_str or ""))

    def pause(self) -> None:
        """Connections stay open, nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it."""
        self.client.close()
        self._process.kill()
        self._process.wait()
        self._guard.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _java(environ: Mapping[str, str]) -> str | None:
    homes = [{"JAVA_HOME": str(one), "PATH": ""} for one in sorted(JVM_FOLDER.glob("*"))]
    found = (find_java(one, JAVA_VERSION_MIN) for one in [dict(environ), *homes])
    return next((java for java in found if java is not None), None)
