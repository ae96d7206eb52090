"""A TCP connection that can be cut, slowed down, or led elsewhere."""

from __future__ import annotations

import socket
import threading
import time


class Wire:
    """Listens on loopback and passes all bytes on to `port`. A cut wire passes no byte and does not tell either
    side."""

    def __init__(self, port: int, at: int = 0, rate: int | None = None) -> None:
        """`at`: the port on which the wire listens; any free port by default. Raises OSError for a port in use. `rate`:
        the bytes per second that pass from `port` to the client; without a limit by default."""
        self._rate = rate
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
            for source, sink, rate in ((near, far, None), (far, near, self._rate)):
                threading.Thread(target=self._pass, args=(source, sink, rate), daemon=True).start()

    def _connect(self) -> socket.socket:
        far = socket.socket()
        if self._rate:
            # With a small buffer the bytes that have not passed wait at the other end.
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        far.connect(("127.0.0.1", self.target))
        return far

    def _pass(self, source: socket.socket, sink: socket.socket, rate: int | None) -> None:
        try:
            while data := source.recv(2048 if rate else 65536):
                self._whole.wait()
                if rate:
                    time.sleep(len(data) / rate)
                sink.sendall(data)
        except OSError:
            pass
        for connection in (source, sink):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
