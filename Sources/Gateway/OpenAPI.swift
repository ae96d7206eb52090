import CGatewayFiles

/// The description that `GET /openapi.yaml` serves: docs/openapi.yaml.
enum OpenAPI {
    static let document = [UInt8](bellwire_openapi_yaml)
}

extension [UInt8] {
    /// The bytes of a file that the program contains.
    init(_ file: bellwire_file) {
        self.init(UnsafeBufferPointer(start: file.bytes, count: file.size))
    }
}
