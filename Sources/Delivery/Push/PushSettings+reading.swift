import Basics
import CallCore
import Glibc
import HTTPSending
import SignalingProtocol
import Support
import Tokens

extension PushSettings {
    /// Reads the whole file. Throws the first mistake, with its place, in one sentence.
    package init(file path: String) throws(SettingsError) {
        let known = ["publicURL", "after", "certificateAuthorityFile", "apps"]
        self = try readSettings(path, known: known) { json throws(SettingsError) in try Self(json, path) }
    }

    private init(_ json: SettingsObject, _ path: String) throws(SettingsError) {
        guard let list = try json.named("apps") else { throw json.error("apps", "missing") }
        guard (1...Self.maxApps).contains(list.count) else {
            throw json.error("apps", "expected 1 to \(Self.maxApps) apps")
        }
        var apps: [AppName: PushApp] = [:]
        for (text, value) in list {
            guard let name = AppName(text) else {
                throw json.error("apps", "\(shown(text)): expected a name of 1 to 64 of A-Z a-z 0-9 _ -")
            }
            apps[name] = try PushApp(value, at: "apps.\(name)", settings: path)
        }
        let after = try json.number("after", in: Self.afterRange, default: 1, "seconds")
        self.init(
            publicURL: try Self.publicURL(json), after: Milliseconds((after * 1_000).rounded()),
            certificateAuthorityFile: try json.file("certificateAuthorityFile", besides: path), apps: apps)
    }

    private static func publicURL(_ json: SettingsObject) throws(SettingsError) -> String? {
        let key = "publicURL"
        guard let text = try json.string(key) else { return nil }
        let expected = "expected the https URL under which devices reach a gateway (http only for this machine itself)"
        guard text.utf8.count <= longestPublicURL, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            !text.utf8.contains(where: { "?#\"<>\\^`{|}".utf8.contains($0) }), let url = ServerURL(text),
            url.username == nil, url.password == nil,
            url.scheme == "https" || url.scheme == "http" && isLoopback(url.host)
        else { throw json.error(key, expected) }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    private static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" { return true }
        guard let address = IPAddress(host) else { return false }
        return loopback.contains { $0.contains(address) }
    }

    private static let loopback = ["127.0.0.0/8", "::1/128"].compactMap { Network($0) }
}

extension PushApp {
    init(_ value: JSONValue, at place: String, settings: String) throws(SettingsError) {
        let json = try SettingsObject(value, at: place, known: ["apns", "fcm", "webPush", "texts", "shape"])
        let apns = try json.object(
            "apns", known: ["keyFile", "keyID", "teamID", "bundleID", "endpoint"])
        let fcm = try json.object("fcm", known: ["serviceAccountFile", "endpoint"])
        let webPush = try json.object("webPush", known: ["keyFile", "subject", "allowedNetworks"])
        guard apns != nil || fcm != nil || webPush != nil else {
            throw SettingsError("\(place): expected one of apns, fcm and webPush")
        }
        self.init(
            apns: try apns.map { json throws(SettingsError) in try APNsSettings(json, settings) },
            fcm: try fcm.map { json throws(SettingsError) in try FCMSettings(json, settings) },
            webPush: try webPush.map { json throws(SettingsError) in try WebPushSettings(json, settings) },
            texts: try json.object("texts", known: ["ring", "missed"]).map { json throws(SettingsError) in
                try PushTexts(json)
            } ?? PushTexts(),
            shape: try json.value("shape").map { value throws(SettingsError) in
                try PushShape(value, at: "\(place).shape")
            } ?? PushShape())
    }
}

extension APNsSettings {
    fileprivate init(_ json: SettingsObject, _ settings: String) throws(SettingsError) {
        let bundleID = try json.requiredString("bundleID")
        // The bundle ID is part of a header's value, with the suffix of VoIP pushes.
        guard (1...155).contains(bundleID.utf8.count), bundleID.utf8.allSatisfy(isBundleByte) else {
            throw json.error("bundleID", "expected 1 to 155 of A-Z a-z 0-9 . -")
        }
        self.init(
            key: try json.key("keyFile", .es256, besides: settings), keyID: try json.token("keyID"),
            teamID: try json.token("teamID"), bundleID: bundleID,
            endpoint: try json.endpoint(default: "https://api.push.apple.com"))
    }
}

extension FCMSettings {
    fileprivate init(_ json: SettingsObject, _ settings: String) throws(SettingsError) {
        let path = resolve(try json.requiredString("serviceAccountFile"), besides: settings)
        let account: ServiceAccount
        do throws(SettingsError) {
            account = try ServiceAccount(file: path)
        } catch {
            throw json.error("serviceAccountFile", error.description)
        }
        self.init(account: account, endpoint: try json.endpoint(default: "https://fcm.googleapis.com"))
    }
}

extension ServiceAccount {
    /// Reads Google's JSON file. Google adds fields to the file, so unknown fields are ignored.
    package init(file path: String) throws(SettingsError) {
        let bytes = try readFile(path, maxBytes: maxSettingsBytes)
        do throws(SettingsError) {
            guard let json = try parsedSettings(bytes).object else { throw SettingsError("expected a JSON object") }
            func text(_ key: String, _ most: Int) throws(SettingsError) -> String {
                guard let text = json[key]?.string else { throw SettingsError("\(key): missing") }
                guard (1...most).contains(text.utf8.count), !text.unicodeScalars.contains(where: isControl) else {
                    throw SettingsError("\(key): expected 1 to \(most) bytes")
                }
                return text
            }
            guard let pem = json["private_key"]?.string else { throw SettingsError("private_key: missing") }
            let email = try text("client_email", 256)
            let project = try text("project_id", 128)
            let keyID: String? = json["private_key_id"] == nil ? nil : try text("private_key_id", 256)
            let address = try text("token_uri", HTTPSURL.maxBytes)
            let url: HTTPSURL
            do throws(SettingsError) { url = try HTTPSURL(address) } catch { throw error.within("token_uri") }
            let key: CryptographicKey
            do throws(TokenError) {
                key = try CryptographicKey(.rs256, pem: Array(pem.utf8))
            } catch {
                throw SettingsError("private_key: \(error.description)")
            }
            self.init(email: email, project: project, tokenURL: url, keyID: keyID, key: key)
        } catch {
            throw error.within(path)
        }
    }
}

extension WebPushSettings {
    fileprivate init(_ json: SettingsObject, _ settings: String) throws(SettingsError) {
        let subject = try json.requiredString("subject")
        guard (8...256).contains(subject.utf8.count), subject.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            subject.hasPrefix("mailto:") || subject.hasPrefix("https:")
        else {
            throw json.error("subject", "expected whom push services may turn to, as mailto:ops@example.com")
        }
        guard WebPushSettings.isReachable(subject) else {
            throw json.error(
                "subject",
                "\(shown(subject)): Apple refuses pushes whose contact is not at a public domain, as mailto:ops@example.com"
            )
        }
        var networks: [Network] = []
        for (index, text) in (try json.strings("allowedNetworks") ?? []).enumerated() {
            guard let network = Network(text) else {
                throw json.error(
                    "allowedNetworks[\(index)]",
                    "\(shown(text)): expected a network like 10.0.0.0/8, with no bit set beyond its length")
            }
            networks.append(network)
        }
        self.init(
            key: try json.key("keyFile", .es256, besides: settings), subject: subject,
            rules: AddressRules(allowedNetworks: networks))
    }
}

extension PushTexts {
    fileprivate init(_ json: SettingsObject) throws(SettingsError) {
        self.init(
            ring: try Self.text(json, "ring", Self.standardRing),
            missed: try Self.text(json, "missed", Self.standardMissed))
    }

    private static func text(
        _ json: SettingsObject, _ key: String, _ standard: Text
    ) throws(SettingsError) -> Text {
        guard let json = try json.object(key, known: ["title", "body"]) else { return standard }
        return Text(
            title: try checked(json, "title") ?? standard.title, body: try checked(json, "body") ?? standard.body)
    }

    private static func checked(_ json: SettingsObject, _ key: String) throws(SettingsError) -> String? {
        guard let text = try json.string(key) else { return nil }
        guard text.utf8.count <= Limits.pushFieldBytes else {
            throw json.error(key, "longer than \(Limits.pushFieldBytes) bytes")
        }
        let rest = placeholders.reduce(text) { $0.replacing($1, with: "") }
        guard !rest.utf8.contains(UInt8(ascii: "{")) else {
            throw json.error(key, "unknown {…}; known are \(placeholders.joined(separator: ", "))")
        }
        return text
    }
}

extension SettingsObject {
    fileprivate func endpoint(default standard: String) throws(SettingsError) -> ProviderEndpoint {
        let key = "endpoint"
        let text = try string(key) ?? standard
        do throws(SettingsError) {
            return try ProviderEndpoint(text)
        } catch {
            throw self.error(key, error.description)
        }
    }

    fileprivate func token(_ key: String) throws(SettingsError) -> String {
        let text = try requiredString(key)
        guard isToken(text) else { throw error(key, "expected 1 to 64 of A-Z a-z 0-9 _ -") }
        return text
    }

    fileprivate func key(
        _ key: String, _ algorithm: SignatureAlgorithm, besides settings: String
    ) throws(SettingsError) -> CryptographicKey {
        let path = resolve(try requiredString(key), besides: settings)
        let pem: [UInt8]
        do throws(SettingsError) {
            pem = try readFile(path, maxBytes: 64 << 10)
        } catch {
            throw self.error(key, error.description)
        }
        do throws(TokenError) {
            return try CryptographicKey(algorithm, pem: pem)
        } catch {
            throw self.error(key, "\(path): \(error.description)")
        }
    }
}

private func isBundleByte(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: ".") || byte != UInt8(ascii: "_") && isIDByte(byte)
}

private func isIDByte(_ byte: UInt8) -> Bool { isToken(String(decoding: [byte], as: UTF8.self)) }

private func isControl(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.generalCategory == .control }

extension WebPushSettings {
    /// Whether the contact's domain may exist in public DNS. Apple answers 403 to every push with any other contact.
    static func isReachable(_ subject: String) -> Bool {
        let host: Substring
        if subject.hasPrefix("mailto:") {
            let parts = subject.dropFirst(7).split(separator: "@", omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty else { return false }
            host = parts[1].prefix { $0 != "?" }
        } else {
            guard subject.hasPrefix("https://") else { return false }
            host = subject.dropFirst(8).prefix { $0 != "/" && $0 != "?" && $0 != "#" && $0 != ":" }
        }
        let labels = host.lowercased().split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count >= 2, let last = labels.last,
            labels.allSatisfy({ label in
                (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
                    && label.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D }
            })
        else { return false }
        // A last label of digits alone belongs to an IP address.
        return !["local", "localhost", "internal", "invalid", "test", "lan", "localdomain"].contains(String(last))
            && last.utf8.contains { $0 >= 0x61 }
    }
}
