"""A device of section 1 of the protocol: on paho-mqtt, or the web SDK's machine."""

from .connection import Broker, BrokerRefused, Version
from .device import BACKOFF, QUIET, Deployment, Device, Request
from .gateway import Gateway
from .machine import BeyondMachine, MachineDevice, Machines, why_no_machine
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
    "Version",
    "encode_user",
    "why_no_machine",
]
