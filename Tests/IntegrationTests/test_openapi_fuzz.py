"""schemathesis reads docs/openapi.yaml and asks a real gateway for all operations of the document, and for unknown
operations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Rig
from harness import PROJECT, wait_until
from harness.gateway import Gateway
from harness.processes import clean_environment

SEED = "20260101"


@pytest.fixture
def gateway(rig: Rig, tmp_path: Path) -> Iterator[Gateway]:
    world = rig.world(2)
    # Half of the requests are impossible on purpose.
    world.tap.is_mistaken = lambda _: True
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    yield gateway
    wait_until(lambda: gateway.get("/readyz").status == 200, 10, "the gateway is ready")
    for service in world.services:
        service.wait_ready()
    gateway.stop()


def ask_for_all(gateway: Gateway, *options: str) -> None:
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            *("run", PROJECT / "docs/openapi.yaml", "--url", f"http://127.0.0.1:{gateway.port}"),
            *("--header", f"Authorization: Bearer {gateway.token}"),
            *("--request-timeout", "12", "--seed", SEED, "--generation-database", "none"),
            *("--suppress-health-check", "all", "--warnings", "off", "--no-color", "--workers", "1"),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=140,
        cwd=gateway.log.parent,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr


@pytest.mark.long
@pytest.mark.timeout(150)
def test_no_answer_is_missing_in_the_document(gateway: Gateway) -> None:
    """Any answer to any client has a status, content type, headers and a body of the document. The gateway need not
    take every request that the schemas allow: no schema can tell lengths in bytes, or the rights of clients."""
    # A preflight request of a browser is answered, whatever request follows.
    ask_for_all(
        gateway,
        *("--checks", "all", "--exclude-checks", "positive_data_acceptance", "--exclude-method", "OPTIONS"),
        *("--max-examples", "40", "--max-time", "45"),
    )


def test_what_the_document_shows_as_examples_is_taken(gateway: Gateway) -> None:
    ask_for_all(gateway, "--phases", "examples", "--checks", "all")
