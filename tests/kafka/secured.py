"""A broker that wants TLS, certificates, passwords and ACLs; with a back door for the test."""

from __future__ import annotations

import os
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
                f"{tls}sasl.enabled.mechanisms": "PLAIN",
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

    def close(self) -> None:
        """End it."""
        self.broker.stop()

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
