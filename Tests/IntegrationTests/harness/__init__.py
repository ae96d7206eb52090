"""The foundation of the integration tests: a broker, the service, phones, and the contract that all traffic must
meet."""

import sys
from pathlib import Path

# The package `conformance`, with the device and other parts of the suite, is in this folder.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from conformance.client import Message, Request, decode_level, encode, encode_user, stop_loop

from .broker import Broker
from .clock import SteppedClock
from .contract import Contract
from .device import Device
from .dropin import DropIn
from .load import Load
from .processes import Child, free_port, wait_until
from .redis import RedisServer
from .sanitizer import needs_full_speed
from .secure import Attempt, SecureBroker
from .service import PROJECT, UNLIMITED, Service, executable, lab, run
from .talk import answers, call_id, change_in, is_online, member, now_ms, ring, talk, welcomes
from .terminal import Terminal
from .wire import Wire
from .world import STORES, Deploy, World, on_each_store

__all__ = [
    "PROJECT",
    "STORES",
    "UNLIMITED",
    "Attempt",
    "Broker",
    "Child",
    "Contract",
    "Deploy",
    "Device",
    "DropIn",
    "Load",
    "Message",
    "RedisServer",
    "Request",
    "SecureBroker",
    "Service",
    "SteppedClock",
    "Terminal",
    "Wire",
    "World",
    "answers",
    "call_id",
    "change_in",
    "decode_level",
    "encode",
    "encode_user",
    "executable",
    "free_port",
    "is_online",
    "lab",
    "member",
    "needs_full_speed",
    "now_ms",
    "on_each_store",
    "ring",
    "run",
    "stop_loop",
    "talk",
    "wait_until",
    "welcomes",
]
