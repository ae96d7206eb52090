"""A broker that takes messages and delivers none: a proxy that keeps back the broker's outbound messages."""

from __future__ import annotations

import socket
import threading

from .processes import free_port

_PUBLISH = 3


class MuteProxy:
    """Passes all packets on, except PUBLISH to the client while `is_mute`."""

    def __init__(self, broker_port: int) -> None:
        self.port = free_port()
        self.is_mute = False
        self.connections = 0
        self.delivered = 0
        """The PUBLISH packets that were passed on to clients."""
        self._broker_port = broker_port
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            broker = socket.create_connection(("127.0.0.1", self._broker_port))
            for end in (client, broker):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass_on, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._pass_packets, args=(broker, client), daemon=True).start()

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                broker.sendall(data)
        except OSError:
            pass
        _end(broker)

    def _pass_packets(self, broker: socket.socket, client: socket.socket) -> None:
        stream = broker.makefile("rb")
        try:
            while head := stream.read(1):
                packet = head
                length = shift = 0
                while True:
                    byte = stream.read(1)
                    packet += byte
                    length |= (byte[0] & 127) << shift
                    shift += 7
                    if byte[0] < 128:
                        break
                packet += stream.read(length)
                is_publish = head[0] >> 4 == _PUBLISH
                if not (self.is_mute and is_publish):
                    client.sendall(packet)
                    self.delivered += is_publish
        except (OSError, IndexError):
            pass
        _end(client)


def _end(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
