"""A network that is cut between two machines: a proxy in front of a server keeps back the bytes of the clients at one
address. Their connections stay open, as when a cable is pulled."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from .processes import free_port

OTHER_MACHINE = "127.0.0.3"
"""The address from which the processes of the other machine connect."""


class Partition:
    """Passes the bytes of all connections on. While `is_cut`, connections from the address `far` stand still, in both
    directions, until `heal` ends them."""

    def __init__(self, server_port: int, far: str = OTHER_MACHINE) -> None:
        self.port = free_port()
        self.is_cut = False
        self._server_port = server_port
        self._far = far
        self._healed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._healed.clear()
        self.is_cut = True

    def heal(self) -> None:
        self.is_cut = False
        self._healed.set()

    def close(self) -> None:
        self.heal()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, (address, _) = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client, address == self._far), daemon=True).start()

    def _serve(self, client: socket.socket, is_far: bool) -> None:
        with client:
            if is_far and self.is_cut:
                self._healed.wait()
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                return
            with server:
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                back = threading.Thread(target=self._pass_on, args=(server, client, is_far), daemon=True)
                back.start()
                self._pass_on(client, server, is_far)
                back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_far: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if is_far and self.is_cut:
                    self._healed.wait()
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
