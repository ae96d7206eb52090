// An app imports a single module.
@_exported import BellwireClientCore
@_exported import struct MQTTProtocol.BrokerAddress
