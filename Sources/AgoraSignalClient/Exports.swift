// An app imports a single module.
@_exported public import struct DropInSupport.BellwireConfiguration
