import Dispatch
import Foundation
import MQTTProtocol
import Network
import Security

/// Returns the settings of TLS. `file` holds the certificate authorities to trust, in PEM; nil for the system's.
func trustedTLS(_ file: String?, _ queue: DispatchQueue) throws(MQTTError) -> NWProtocolTLS.Options {
    let options = NWProtocolTLS.Options()
    guard let file else { return options }
    let authorities = try certificates(in: file)
    sec_protocol_options_set_verify_block(
        options.securityProtocolOptions,
        { _, trust, complete in
            let trust = sec_trust_copy_ref(trust).takeRetainedValue()
            var callBacks = kCFTypeArrayCallBacks
            let anchors = CFArrayCreateMutable(nil, authorities.count, &callBacks)
            for authority in authorities {
                CFArrayAppendValue(anchors, Unmanaged.passUnretained(authority).toOpaque())
            }
            SecTrustSetAnchorCertificates(trust, anchors)
            // The policy of the connection checks the host name as well.
            complete(SecTrustEvaluateWithError(trust, nil))
        }, queue)
    return options
}

private func certificates(in file: String) throws(MQTTError) -> [SecCertificate] {
    guard let bytes = FileManager.default.contents(atPath: file) else {
        throw MQTTError(kind: .tls, message: "\(file): cannot be read")
    }
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")
    var certificates: [SecCertificate] = []
    for part in String(decoding: bytes, as: UTF8.self).components(separatedBy: begin).dropFirst() {
        guard let text = part.components(separatedBy: end).first,
            let der = Data(base64Encoded: text, options: .ignoreUnknownCharacters),
            let data = der.withUnsafeBytes({
                CFDataCreate(nil, $0.bindMemory(to: UInt8.self).baseAddress, der.count)
            }),
            let certificate = SecCertificateCreateWithData(nil, data)
        else { throw MQTTError(kind: .tls, message: "\(file): not a certificate") }
        certificates.append(certificate)
    }
    guard !certificates.isEmpty else { throw MQTTError(kind: .tls, message: "\(file): no certificate in PEM") }
    return certificates
}
