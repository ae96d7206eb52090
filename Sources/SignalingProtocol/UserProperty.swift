/// User properties (MQTT 5, section 3.3.2.3.7) that a broker adds for the service. Of several with one name the last
/// counts: what a broker adds stands behind whatever a device has written there.
package enum UserProperty {
    /// On a presence message: when the token of the device ends, in milliseconds since the epoch.
    package static let tokenExpiresAt = "tokenExpiresAt"
}
