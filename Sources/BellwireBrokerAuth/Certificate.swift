import CMosquittoBroker
import COpenSSL
import Glibc

/// Returns the common name in the client's verified certificate; nil without a certificate, or when the certificate
/// does not have exactly one common name, or when the name is not valid text.
func certificateName(of client: OpaquePointer?) -> String? {
    guard let certificate = mosquitto_client_certificate(client).map(OpaquePointer.init) else { return nil }
    defer { X509_free(certificate) }
    guard let subject = X509_get_subject_name(certificate) else { return nil }
    let place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1)
    // The certificate must have a single common name: with two names, the identity would depend on the choice.
    guard place >= 0, X509_NAME_get_index_by_NID(subject, NID_commonName, place) < 0,
        let entry = X509_NAME_get_entry(subject, place), let text = X509_NAME_ENTRY_get_data(entry)
    else { return nil }
    var start: UnsafeMutablePointer<UInt8>?
    let count = ASN1_STRING_to_UTF8(&start, text)
    guard count >= 0, let start else { return nil }
    defer { CRYPTO_free(start, #file, #line) }
    return String(validating: UnsafeBufferPointer(start: start, count: Int(count)), as: UTF8.self)
}
