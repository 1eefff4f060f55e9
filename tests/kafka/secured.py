"""A broker that wants TLS, certificates, passwords and ACLs; with a back door for the test."""

from __future__ import annotations

import json
import os
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from app.broker.jars import find_jars, find_java
from app.broker.process import HOST, ProcessBroker, free_ports
from tests.certificates import Authority
from tests.kafka.reading import QUIET

if TYPE_CHECKING:
    from pathlib import Path

USER: Final = "job"
PASSWORD: Final = "the-password-of-the-job"

Right = tuple[ResourceType, str, ResourcePatternType, AclOperation]
"""What an ACL allows the job's user."""


class Unavailable(Exception):
    """There is no Java or no Maven here to run such a broker with."""


class _Tokens(BaseHTTPRequestHandler):
    """Gives everybody who knows the password a token of the job's user, unsigned."""

    def do_POST(self) -> None:
        known = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {known}":
            self.send_error(401)
            return
        now = int(time.time())
        claims = {"sub": USER, "iat": now, "exp": now + 300}
        parts = [urlsafe_b64encode(json.dumps(one).encode()) for one in ({"alg": "none"}, claims)]
        token = ".".join([*(part.decode().rstrip("=") for part in parts), ""])
        body = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 300})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name it has)
        """Say nothing."""


class Secured:
    """The broker on two ports: `open` for the test, which may do all, `closed` for the job."""

    def __init__(self, directory: Path) -> None:
        java = find_java(os.environ)
        jars = find_jars(os.environ, print) if java is not None else None
        if java is None or jars is None:
            raise Unavailable("a broker with ACLs runs from Kafka's jars: needs Java 17 and Maven")
        self.authority = Authority(directory)
        self._client = self.authority.issue("client")
        server = self.authority.issue("server")
        self._password = directory / "password"
        self._password.write_text(f"{PASSWORD}\n")
        plain, controller, closed = free_ports(3)
        tls = "listener.name.sasl_ssl."
        self.broker = ProcessBroker(
            java,
            jars,
            {
                "listeners": f"PLAINTEXT://{HOST}:{plain},SASL_SSL://{HOST}:{closed},"
                f"CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},SASL_SSL://{HOST}:{closed}",
                "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
                "SASL_SSL:SASL_SSL",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                f"{tls}sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
                f"{tls}oauthbearer.sasl.jaas.config": "org.apache.kafka.common.security."
                "oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="broker";',
                f"{tls}plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
                f'PlainLoginModule required user_{USER}="{PASSWORD}";',
                f"{tls}ssl.keystore.type": "PEM",
                f"{tls}ssl.keystore.location": str(server.both),
                f"{tls}ssl.truststore.type": "PEM",
                f"{tls}ssl.truststore.location": str(self.authority.file),
                f"{tls}ssl.client.auth": "required",
            },
        )
        self.open = f"{HOST}:{plain}"
        self.closed = f"{HOST}:{closed}"
        self._admin = AdminClient({"bootstrap.servers": self.open, **QUIET})
        self._tokens = HTTPServer((HOST, 0), _Tokens)
        threading.Thread(target=self._tokens.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        """End it."""
        self.broker.stop()
        self._tokens.shutdown()
        self._tokens.server_close()

    def environ(self) -> dict[str, str]:
        """What makes a job use the closed port."""
        return {
            "SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": self.closed,
            "SPANJOIN_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
            "SPANJOIN_KAFKA__SASL_MECHANISM": "PLAIN",
            "SPANJOIN_KAFKA__SASL_USERNAME": USER,
            "SPANJOIN_KAFKA__SASL_PASSWORD_FROM_FILE": str(self._password),
            "SPANJOIN_KAFKA__SSL_CA_LOCATION": str(self.authority.file),
            "SPANJOIN_KAFKA__SSL_CERTIFICATE_LOCATION": str(self._client.certificate),
            "SPANJOIN_KAFKA__SSL_KEY_LOCATION": str(self._client.key),
        }

    def environ_of_tokens(self) -> dict[str, str]:
        """The same with a token instead of a password."""
        address = f"http://127.0.0.1:{self._tokens.server_address[1]}/token"
        common = {name: value for name, value in self.environ().items() if "USERNAME" not in name}
        del common["SPANJOIN_KAFKA__SASL_PASSWORD_FROM_FILE"]
        return common | {
            "SPANJOIN_KAFKA__SASL_MECHANISM": "OAUTHBEARER",
            "SPANJOIN_KAFKA__SASL_OAUTHBEARER_METHOD": "oidc",
            "SPANJOIN_KAFKA__SASL_OAUTHBEARER_CLIENT_ID": USER,
            "SPANJOIN_KAFKA__SASL_OAUTHBEARER_CLIENT_SECRET": PASSWORD,
            "SPANJOIN_KAFKA__SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": address,
        }

    def grant(self, *rights: Right) -> None:
        """Give the job's user these."""
        wanted = [
            AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, pattern, operation in rights
        ]
        for future in self._admin.create_acls(wanted).values():
            future.result(10)

    def revoke(self, right: Right) -> None:
        """Take one away."""
        kind, name, pattern, operation = right
        one = AclBindingFilter(
            kind, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
        )
        for future in self._admin.delete_acls([one]).values():
            assert len(future.result(10)) == 1, right
