/// A moment: milliseconds since the Unix epoch by the store's clock (docs/protocol.md, section 1).
package typealias Milliseconds = Int64
