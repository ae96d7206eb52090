import HTTPSending
import Tokens

/// The settings of Apple's push service for one app.
package struct APNsSettings: Sendable {
    /// A key of P-256.
    package let key: CryptographicKey
    package let keyID: String
    package let teamID: String
    package let bundleID: String
    package let endpoint: ProviderEndpoint

    package init(
        key: CryptographicKey, keyID: String, teamID: String, bundleID: String, endpoint: ProviderEndpoint
    ) {
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
        self.bundleID = bundleID
        self.endpoint = endpoint
    }
}

/// The settings of Firebase Cloud Messaging for one project.
package struct FCMSettings: Sendable {
    package let account: ServiceAccount
    package let endpoint: ProviderEndpoint

    package init(account: ServiceAccount, endpoint: ProviderEndpoint) {
        self.account = account
        self.endpoint = endpoint
    }
}

/// The service account that requests Google's access tokens, read from Google's JSON file.
package struct ServiceAccount: Sendable {
    package let email: String
    package let project: String
    package let tokenURL: HTTPSURL
    package let keyID: String?
    /// An RSA key.
    package let key: CryptographicKey

    package init(email: String, project: String, tokenURL: HTTPSURL, keyID: String?, key: CryptographicKey) {
        self.email = email
        self.project = project
        self.tokenURL = tokenURL
        self.keyID = keyID
        self.key = key
    }
}

/// The settings of Web Push services (services of browsers, and UnifiedPush): the key that identifies the app (RFC
/// 8292), and the allowed addresses.
package struct WebPushSettings: Sendable {
    /// A key of P-256.
    package let key: CryptographicKey
    /// The contact for push services: `mailto:…` or `https://…`.
    package let subject: String
    package let rules: AddressRules

    package init(key: CryptographicKey, subject: String, rules: AddressRules = AddressRules()) {
        self.key = key
        self.subject = subject
        self.rules = rules
    }
}

/// The URL of a provider, without a query and without a slash at its end.
package struct ProviderEndpoint: Sendable, Equatable {
    package let text: String

    package init(_ text: String) throws(SettingsError) {
        let url = try HTTPSURL(text)
        guard !url.target.contains("?") else { throw SettingsError("the URL of a provider has no query (?)") }
        guard text.utf8.count <= 512 else { throw SettingsError("longer than 512 bytes") }
        self.text = text.hasSuffix("/") ? String(text.dropLast()) : text
    }
}
