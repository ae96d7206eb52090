// An app imports one module.
@_exported public import struct DropInSupport.BellwireConfiguration
