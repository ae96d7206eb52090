"""A TCP connection that can be cut, slowed down, or led elsewhere."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable


class Wire:
    """Listens on loopback and passes all bytes on to `port`. A cut wire passes no byte and does not tell either
    side."""

    def __init__(self, port: int, at: int = 0, rate: int | None = None) -> None:
        """`at`: the port on which the wire listens; any free port by default. Raises OSError for a port in use. `rate`:
        the bytes per second that pass from `port` to the client; without a limit by default."""
        self._rate = rate
        self.lag = 0.0
        """The seconds that each byte takes longer on its way from `port` to the client."""
        self.target = port
        """The target of new connections; existing connections keep their target."""
        self._server = socket.create_server(("127.0.0.1", at))
        self.port = self._server.getsockname()[1]
        self._whole = threading.Event()
        self._whole.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self._whole.set()
        for connection in [self._server, *self._open]:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = self._connect()
            except OSError:
                return
            for connection in (near, far):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [near, far]
            threading.Thread(target=self._pass, args=(near, far), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, self._rate, lambda: self.lag), daemon=True).start()

    def _connect(self) -> socket.socket:
        far = socket.socket()
        if self._rate:
            # With a small buffer the bytes that have not passed wait at the other end.
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        far.connect(("127.0.0.1", self.target))
        return far

    def _pass(
        self, source: socket.socket, sink: socket.socket, rate: int | None = None, lag: Callable[[], float] = lambda: 0
    ) -> None:
        arrivals = select.poll()
        arrivals.register(source, select.POLLIN)
        late: deque[tuple[float, bytes]] = deque()
        """The bytes on their way, each with the time when they arrive."""
        try:
            while True:
                left = max(0, late[0][0] - time.monotonic()) * 1000 if late else None
                if arrivals.poll(left):
                    data = source.recv(2048 if rate else 65536)
                    if not data:
                        break
                    late.append((time.monotonic() + lag(), data))
                while late and late[0][0] <= time.monotonic():
                    self._whole.wait()
                    if rate:
                        time.sleep(len(late[0][1]) / rate)
                    sink.sendall(late.popleft()[1])
        except OSError:
            pass
        for connection in (source, sink):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
