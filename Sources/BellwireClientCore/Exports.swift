// The types of the protocol belong to this interface, so that an app imports a single module.
@_exported import SignalingProtocol
