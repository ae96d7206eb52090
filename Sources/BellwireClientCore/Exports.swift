// The types of the protocol belong to this interface: an app imports one module.
@_exported import SignalingProtocol
