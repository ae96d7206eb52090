"""The processes with the SDKs' devices. Orders and reports are lines of JSON, which `machine.py` interprets."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from paho.mqtt import MQTTException

from ..expect import Mismatch
from .connection import Broker
from .packets import CONNECT, PacketReader
from .tap import Ears, Exchange, Wire

_PROJECT = Path(__file__).resolve().parent.parent.parent
_ANSWER_SECONDS = 60.0
"""How long the process may take to carry out an order, on a busy machine."""


class Listener(Protocol):
    """The receiver of a device's reports."""

    def reported(self, told: dict[str, Any]) -> None: ...
    def sent(self, type_: int, flags: int, body: bytes) -> None: ...
    def received(self, type_: int, flags: int, body: bytes) -> None: ...

    violations: list[str]


class Machines(ABC):
    """A process with an SDK, which serves the devices of all tests."""

    name: str
    """The name of the SDK."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
        )
        self._devices: dict[int, Listener] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._done: dict[int, threading.Event] = {}
        self._reader = threading.Thread(target=self._read, name="machines", daemon=True)
        self._reader.start()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def enrol(self, device: Listener) -> int:
        """Registers a device. Returns a number for the device."""
        with self._lock:
            number = next(self._numbers)
            self._devices[number] = device
        return number

    def dismiss(self, number: int) -> None:
        with self._lock:
            self._devices.pop(number, None)

    @abstractmethod
    def begin(self, number: int, settings: dict[str, Any]) -> None:
        """Connects, as an app does. `settings`: `user`, `device`, `keepAlive`, `topicRoot`, `qos`, `token`."""

    @abstractmethod
    def lose(self, number: int) -> None:
        """Takes the network away: the broker receives no DISCONNECT, and the SDK learns that its connection broke."""

    @abstractmethod
    def find(self, number: int) -> None:
        """Restores the network, and tells the SDK."""

    def end(self, number: int) -> None:
        """Disconnects, as an app does."""
        self.order("end", number)
        self.sync(number)

    def order(self, order: str, number: int, **fields: Any) -> None:
        line = json.dumps({"order": order, "number": number} | fields) + "\n"
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except OSError as error:
            raise Mismatch(f"the process with {self.name} has ended") from error

    def sync(self, device: int) -> None:
        """Returns when the device has carried out all earlier orders, and their immediate results have been
        reported."""
        with self._lock:
            token, done = next(self._numbers), threading.Event()
            self._done[token] = done
        self.order("sync", device, token=token)
        if not done.wait(_ANSWER_SECONDS) or self._process.poll() is not None:
            raise Mismatch(f"the process with {self.name} did not answer; its exit status is {self._process.poll()}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._lock:
                done = self._done.pop(told.get("sync"), None)
                device = self._devices.get(told.get("device"))
            if done:
                done.set()
            if device:
                _noting(device, self._understand)(device, told)
        for done in list(self._done.values()):
            done.set()

    def _understand(self, device: Listener, told: dict[str, Any]) -> None:
        device.reported(told)


class WebMachines(Machines):
    """Devices that are the web SDK, in Node. Its WebSockets report the bytes that they send and receive."""

    name = "the web SDK"

    def __init__(self, url: str, authorities: str | None) -> None:
        """`url`: the broker's, `ws://` or `wss://`. Raises OSError when Node or esbuild is missing."""
        self._url = url
        self._directory = tempfile.TemporaryDirectory(prefix="bellwire-conformance-")
        self._readers: dict[int, PacketReader] = {}
        bundle = Path(self._directory.name) / "devices.mjs"
        script = _PROJECT / "conformance/machine/devices.mjs"
        options = ["--bundle", "--platform=node", "--format=esm", "--log-level=warning"]
        built = subprocess.run(
            [_tool("esbuild"), str(script), *options, f"--outfile={bundle}"], capture_output=True, text=True, check=False
        )
        if built.returncode != 0:
            raise OSError(f"esbuild could not build the web SDK: {built.stderr[-2000:]}")
        super().__init__(
            [_tool("node"), "--experimental-websocket", "--no-warnings", str(bundle)],
            {"NODE_EXTRA_CA_CERTS": authorities} if authorities else {},
        )

    def close(self) -> None:
        super().close()
        self._directory.cleanup()

    def begin(self, number: int, settings: dict[str, Any]) -> None:
        self.order("begin", number, settings=settings | {"urls": [self._url]})

    def lose(self, number: int) -> None:
        self.order("lose", number)
        self.sync(number)

    def find(self, number: int) -> None:
        self.order("find", number)

    def _understand(self, device: Listener, told: dict[str, Any]) -> None:
        match told:
            case {"in": data, "device": number}:
                for packet in self._readers[number].push(base64.b64decode(data)):
                    device.received(*packet)
            case {"out": data, "device": number}:
                for type_, flags, body in PacketReader().push(base64.b64decode(data)):
                    if type_ == CONNECT:
                        self._readers[number] = PacketReader()
                    device.sent(type_, flags, body)
            case _:
                device.reported(told)


class WiredMachines(Machines):
    """Devices that speak MQTT over TCP. Each device has a wire of its own to the broker, which shows its packets."""

    def __init__(self, name: str, broker: Broker, command: list[str]) -> None:
        self.name = name
        super().__init__(command, {})
        self._exchange = Exchange(broker)
        self._wires: dict[int, Wire] = {}

    def close(self) -> None:
        super().close()
        self._exchange.close()

    def begin(self, number: int, settings: dict[str, Any]) -> None:
        with self._lock:
            device = self._devices[number]
        ears = Ears(sent=_noting(device, device.sent), received=_noting(device, device.received))
        wire = self._wires[number] = self._exchange.wire(ears)
        self.order("begin", number, settings=settings | {"url": wire.url})

    def lose(self, number: int) -> None:
        self._wires[number].cut()

    def find(self, number: int) -> None:
        self._wires[number].mend()
        self.order("find", number)

    def end(self, number: int) -> None:
        super().end(number)
        self._wires.pop(number).close()


def _noting(device: Listener, hear: Callable[..., None]) -> Callable[..., None]:
    """Wraps a listener: a packet that cannot be read becomes a violation of the device, and the other devices go on."""

    def heard(*what: Any) -> None:
        try:
            hear(*what)
        except (ArithmeticError, LookupError, TypeError, ValueError, MQTTException) as problem:
            device.violations.append(f"not understood, {problem!r}: {str(what)[:300]}")

    return heard


def swift_machines(broker: Broker, transport: str) -> Machines:
    """`transport`: `own` or `mosquitto`. Raises OSError when the devices were not built."""
    return WiredMachines("the Swift SDK", broker, [str(_swift_devices()), transport])


def kotlin_machines(broker: Broker) -> Machines:
    """Raises OSError when Java or Kotlin's compiler is missing."""
    built = subprocess.run([_PROJECT / "scripts/kotlin", "--classpath"], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise OSError(f"scripts/kotlin could not build the Kotlin SDK: {built.stderr[-2000:]}")
    # Hundreds of devices, with three threads each. The JVM uses only its quick compiler, since the process does not
    # live for long.
    command = [_tool("java"), "-Xss256k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", built.stdout.strip(), "org.bellwire.ConformanceDevicesKt"]
    return WiredMachines("the Kotlin SDK", broker, command)


def _swift_devices() -> Path:
    """Returns the newer of the two builds."""
    built = [_PROJECT / f".build/{kind}/conformance-devices" for kind in ("release", "debug")]
    built = [path for path in built if path.exists()]
    if not built:
        raise OSError("--device swift needs its devices: swift build -c release --product conformance-devices")
    return max(built, key=lambda path: path.stat().st_mtime)


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise OSError(f"no {name} here (--device web: apt-get install nodejs esbuild; kotlin: openjdk-17-jre-headless)")
    return found
