/// The description that `GET /openapi.yaml` serves: docs/openapi.yaml.
enum OpenAPI {
    static let document = PackageResources.openapi_yaml
}
