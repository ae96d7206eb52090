/// User properties (MQTT 5, section 3.3.2.3.7) that the service reads. When a message has a name several
/// times, the last value counts: a broker adds its property behind all properties that a device has written.
package enum UserProperty {
    /// On a presence message: the end of the device's token, in milliseconds since the epoch.
    package static let tokenExpiresAt = "tokenExpiresAt"
    /// On a request: the parent of the request's spans (`TraceParent`).
    package static let traceParent = "traceparent"
}
