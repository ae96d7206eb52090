"""A TCP connection that can be cut, or led elsewhere."""

from __future__ import annotations

import socket
import threading


class Wire:
    """Listens on loopback and passes everything on to `port`. While it is cut nothing passes, and nobody is told."""

    def __init__(self, port: int, at: int = 0) -> None:
        """`at`: where it listens; anywhere by default. Raises OSError when somebody else does."""
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
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for connection in (near, far):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self._whole.wait()
                sink.sendall(data)
        except OSError:
            pass
        for connection in (source, sink):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
