"""A device of section 1 of the protocol: on paho-mqtt, or an SDK's machine."""

from .connection import Broker, BrokerRefused, Version
from .device import BACKOFF, QUIET, Deployment, Device, Request
from .gateway import Gateway
from .machine import BeyondMachine, MachineDevice, why_no_machine
from .machines import Machines, SwiftMachines, WebMachines
from .message import Journal, Message
from .topics import encode_user

__all__ = [
    "BACKOFF",
    "QUIET",
    "BeyondMachine",
    "Broker",
    "BrokerRefused",
    "Deployment",
    "Device",
    "Gateway",
    "Journal",
    "MachineDevice",
    "Machines",
    "Message",
    "Request",
    "SwiftMachines",
    "Version",
    "WebMachines",
    "encode_user",
    "why_no_machine",
]
