// An app imports one module.
@_exported import BellwireClientCore
@_exported import struct MQTTClient.BrokerAddress
