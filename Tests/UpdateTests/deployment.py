"""A deployment of the release before: a broker that checks tokens, Redis, three coordinators and a gateway."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from chaos.deployment import Deployment
from harness import Broker, SecureBroker
from harness.gateway import Gateway
from harness.secure import plugin

from builds import Build


class UpdateBroker(SecureBroker):
    """mosquitto with the plugin of either build."""

    def __init__(self, directory: Path, build: Build, *others: Build) -> None:
        """`build` makes the keys, the tokens of servers, and the first plugin. Devices have tokens of all the builds."""
        self.build = build
        """The build whose plugin the next `start` loads."""
        self._makers = (build, *others)
        self._password = cache(self._make_password)
        super().__init__(directory, start=False, log_type="error")

    def _configuration(self) -> str:
        return super()._configuration().replace(str(plugin()), str(self.build.plugin))

    def add_key(self, algorithm: str) -> None:
        self._makers[0].run("keys", "generate", "--out", str(self.keys), "--algorithm", algorithm, "--add")

    def publish_keys(self) -> None:
        self._makers[0].run("keys", "public", "--keys", str(self.keys), "--out", str(self.published_keys))

    def password(self, user: str, device: str) -> str:
        return self._password(user)

    def _make_password(self, user: str) -> str:
        maker = self._makers[sum(user.encode()) % len(self._makers)]
        return maker.token(self.keys, user)

    def role_token(self, role: str) -> Path:
        """A file with the token of a coordinator or a server."""
        path = self.directory / f"{role}.token"
        path.write_text(self._makers[0].token(self.keys, role, "--role", role) + "\n")
        return path


class UpdateDeployment(Deployment):
    """All processes begin as the old build."""

    # A broker that is replaced takes devices seconds to come back; their calls shall ring on.
    FLAGS = Deployment.FLAGS | {"caller_grace": "6s"}

    def __init__(self, directory: Path, old: Build, new: Build, webhooks: Path) -> None:
        self._old, self._new = old, new
        super().__init__(directory, 3, 1, "redis", "no", None, None, webhooks)
        for coordinator in self.coordinators:
            coordinator.program = old.program
        self.gateway = Gateway(
            directory / "gateway",
            self.broker.url,
            self.coordinators[0].store,
            signing=self.broker.keys,
            keys=str(self.broker.keys),
            token_file=str(self.broker.role_token("server")),
            webhooks=str(webhooks),
        )
        self.gateway.program = old.program

    @property
    def broker(self) -> UpdateBroker:
        broker = self.brokers[0]
        assert isinstance(broker, UpdateBroker)
        return broker

    def _make_broker(self, directory: Path) -> Broker:
        return UpdateBroker(directory, self._old, self._new)

    def _flags(self) -> dict[str, str]:
        return self.FLAGS | {"token_file": str(self.broker.role_token("coordinator"))}

    def start(self) -> None:
        super().start()
        self.gateway.start()

    def stop(self) -> None:
        self.gateway.stop()
        super().stop()

    @property
    def is_ready(self) -> bool:
        """Every coordinator and the gateway serve."""
        return all(process.get("/readyz")[0] == 200 for process in self.coordinators) and self.is_gateway_ready

    @property
    def is_gateway_ready(self) -> bool:
        return self.gateway.get("/readyz", timeout=2).status == 200

    @property
    def store_format(self) -> str:
        """The number of the store's format, at the beginning of the clock's entry."""
        assert self.redis
        return self.redis.command("GET", "bellwire:clock").decode().split("\r\n")[1].split()[0]
