"""Secrets come from files and variables, and are shown nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
import structlog

from app import log, secrets
from app.cli import run_command
from app.errors import UsageError
from app.kafka.cluster import made
from app.settings import LogTable
from tests.unit.jobs import MINIMAL, job, write_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET: Final = "hunter2-is-not-to-be-seen"
KEY: Final = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqG\n-----END PRIVATE KEY-----"
TOKEN_FILE: Final = MINIMAL + '[http]\ntoken = { from_file = "token" }\n'


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secrets, "_known", set())
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.password", True),
        ("ssl.key.password", True),
        ("ssl.key.pem", True),
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.oauthbearer.config", True),
        ("kafka.schema.registry.basic.auth.user.info", True),
        ("http.token", True),
        ("sasl.username", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("ssl.key.location", False),
        ("sasl.oauthbearer.assertion.file", False),
        ("bootstrap.servers", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert secrets.is_secret(name) == secret


def test_a_variable_may_name_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    (tmp_path / "name").write_text("someone\r\n")
    config = job(
        tmp_path,
        environ={
            "SPANJOIN_KAFKA__SASL_PASSWORD_FROM_FILE": str(tmp_path / "password"),
            "SPANJOIN_KAFKA__CONSUMER__SASL_USERNAME_FROM_FILE": "name",
        },
    )
    assert config.kafka_common["sasl.password"] == SECRET
    assert config.consumer_properties()["sasl.username"] == "someone"


def test_a_setting_may_name_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f" {SECRET}\n\n")
    with pytest.raises(UsageError, match=r"http\.token must be 16"):
        job(tmp_path, TOKEN_FILE)
    (tmp_path / "token").write_text(SECRET)
    assert job(tmp_path, TOKEN_FILE).http.token == SECRET
    text = MINIMAL.replace("[left]", '"ssl.key.pem" = { from_file = "key.pem" }\n[left]')
    (tmp_path / "key.pem").write_text(KEY + "\n")
    assert job(tmp_path, text).kafka_common["ssl.key.pem"] == KEY
    assert secrets.hide("bad: MIGHAgEAMBMGByqGSM49AgEGCCqG") == "bad: ***"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "http.token: {path} cannot be read: No such file or directory"),
        (b"\xff\xfe" * 10, "http.token: {path} is not UTF-8 text"),
        (b"x" * (secrets.BYTES_MAX + 1), "http.token: {path} is larger than 1048576 bytes"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes | None, line: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        job(tmp_path, TOKEN_FILE)
    assert error.value.line == f"{tmp_path / 'job.toml'}: {line.format(path=path)}"
    with pytest.raises(UsageError, match=r"http\.token\.from_file must be the path of a file"):
        job(tmp_path, TOKEN_FILE.replace('"token"', "7"))


def known(tmp_path: Path) -> Path:
    """A configuration with secrets of each kind, which the program knows from now on."""
    kafka = f'"sasl.password" = "{SECRET}"\n"sasl.mechanism" = "PLAIN"\n'
    text = MINIMAL.replace("[left]", f"{kafka}[left]") + f'[http]\ntoken = "{SECRET}"\n'
    path = write_job(tmp_path, text)
    assert SECRET not in repr(job(tmp_path, text))
    return path


@pytest.mark.parametrize("form", ["json", "human"])
def test_no_log_shows_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    known(tmp_path)
    log.configure(LogTable(format="json" if form == "json" else "human"))
    logger = structlog.get_logger()
    try:
        int(SECRET)
    except ValueError as error:
        logger.exception(
            "x", event_of=f"x {SECRET}", reason=f"it was {SECRET}!", why=error, many=[SECRET]
        )
    written = capsys.readouterr().err
    assert SECRET not in written
    assert "it was ***!" in written
    assert "ValueError: invalid literal for int() with base 10: '***'" in written
    if form == "json":
        assert [json.loads(line)["level"] for line in written.splitlines()] == ["error"]


def test_no_error_and_no_traceback_shows_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = known(tmp_path)

    def refuse(_properties: object) -> None:
        raise ValueError(f'Invalid value "{SECRET}" for configuration property')

    def refused(_config: object) -> None:
        made(refuse, {})

    monkeypatch.setattr("app.kafka.check.check_properties", refused)
    assert run_command(["validate", "-c", str(path)]) == 2
    assert 'Invalid value "***" for' in (told := capsys.readouterr().err)
    assert SECRET not in told
    monkeypatch.setenv("SPANJOIN_TRACEBACK", "1")
    monkeypatch.setattr("app.kafka.check.check_properties", refuse)
    assert run_command(["validate", "-c", str(path)]) == 1
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert SECRET not in told


def test_the_client_itself_repeats_what_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So this is no invention: a real line of the client's, as the command would show it."""
    text = MINIMAL.replace("[left]", f'"sasl.oauthbearer.config" = "{SECRET}"\n[left]')
    text = text.replace("[left]", '"sasl.mechanism" = "OAUTHBEARER"\n[left]')
    text = text.replace("[left]", '"security.protocol" = "SASL_PLAINTEXT"\n[left]')
    code = run_command(["validate", "-c", str(write_job(tmp_path, text))])
    assert code in {0, 2}
    assert SECRET not in capsys.readouterr().err
