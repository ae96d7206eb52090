"""A TCP connection that can be cut, slowed down, or led elsewhere."""

from __future__ import annotations

import socket
import threading
import time


class Wire:
    """Listens on loopback and passes everything on to `port`. While it is cut nothing passes, and nobody is told."""

    def __init__(self, port: int, at: int = 0, rate: int | None = None) -> None:
        """`at`: where it listens; anywhere by default. Raises OSError when somebody else does. `rate`: the bytes per second that
        pass from `port` to whoever connected; as many as come by default."""
        self._rate = rate
        self.target = port
        """Where new connections lead; those that are there stay."""
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
            # What has not passed waits at the other end, not here.
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
