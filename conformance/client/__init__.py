"""A device of section 1 of the protocol, on paho-mqtt."""

from .connection import Broker, BrokerRefused, Version
from .device import BACKOFF, QUIET, Deployment, Device, Request
from .message import Journal, Message
from .topics import encode_user

__all__ = [
    "BACKOFF",
    "QUIET",
    "Broker",
    "BrokerRefused",
    "Deployment",
    "Device",
    "Journal",
    "Message",
    "Request",
    "Version",
    "encode_user",
]
