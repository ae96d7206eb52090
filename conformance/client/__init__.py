"""A device by section 1 of the protocol: on paho-mqtt, or an SDK's machine."""

from .connection import Broker, BrokerRefused, Version, connect, make_client, no_delay, stop_loop
from .device import QUIET, Deployment, Device, Request, users
from .endpoint import BACKOFF, Endpoint, Will, ack_of, encode, without_none
from .gateway import Gateway
from .machine import BeyondMachine, MachineDevice, why_no_machine
from .machines import Machines, WebMachines, kotlin_machines, swift_machines
from .message import Journal, Message
from .topics import ROOT, decode_level, encode_user

__all__ = [
    "BACKOFF",
    "QUIET",
    "ROOT",
    "BeyondMachine",
    "Broker",
    "BrokerRefused",
    "Deployment",
    "Device",
    "Endpoint",
    "Gateway",
    "Journal",
    "MachineDevice",
    "Machines",
    "Message",
    "Request",
    "Version",
    "WebMachines",
    "Will",
    "ack_of",
    "connect",
    "decode_level",
    "encode",
    "encode_user",
    "kotlin_machines",
    "make_client",
    "no_delay",
    "stop_loop",
    "swift_machines",
    "users",
    "why_no_machine",
    "without_none",
]
