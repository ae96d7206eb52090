"""What the integration tests stand on: a broker, the service, phones, and the contract that all traffic must meet."""

from .broker import Broker
from .contract import Contract
from .device import Device, Pending, Received, Refused, encode
from .processes import Child, free_port, wait_until
from .redis import RedisServer
from .service import PROJECT, Service, executable, run
from .talk import call_id, change_in, is_online, member, now_ms, present, ring, talk, welcomes
from .terminal import Terminal
from .topics import decode_level, encode_user
from .world import Deploy, World

__all__ = [
    "PROJECT",
    "Broker",
    "Child",
    "Contract",
    "Deploy",
    "Device",
    "Pending",
    "Received",
    "RedisServer",
    "Refused",
    "Service",
    "Terminal",
    "World",
    "call_id",
    "change_in",
    "decode_level",
    "encode",
    "encode_user",
    "executable",
    "free_port",
    "is_online",
    "member",
    "now_ms",
    "present",
    "ring",
    "run",
    "talk",
    "wait_until",
    "welcomes",
]
