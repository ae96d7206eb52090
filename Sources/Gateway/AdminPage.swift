import CGatewayFiles
import HTTPServing

/// The admin page (docs/operations.md, The admin page): a client of `/v1/admin` that is part of the program. Its files
/// tell nothing and need no token; the page asks the administrator for one.
enum AdminPage {
    private static let files: [String: (contentType: String, bytes: [UInt8])] = [
        "": ("text/html; charset=utf-8", [UInt8](bellwire_admin_html)),
        "admin.css": ("text/css; charset=utf-8", [UInt8](bellwire_admin_css)),
        "admin.js": ("text/javascript; charset=utf-8", [UInt8](bellwire_admin_js)),
    ]

    /// Allows only the page's own files and its own gateway. No other page may frame this page, because a frame would
    /// borrow the administrator's clicks.
    private static let headers = PageHeaders.all(
        policy: [
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src data:", "connect-src 'self'",
            "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
        ], permissions: "camera=(), microphone=(), geolocation=()")

    /// Returns the file of a path; nil when the page has no such file.
    /// - Parameter levels: the decoded levels of the path.
    static func response(_ method: String, _ levels: [String]) -> HTTPResponse? {
        guard levels.first == "admin", levels.count <= 2, method == "GET" || method == "HEAD" else { return nil }
        // The names of the page's files count from `/admin/`.
        guard levels.count == 2 else { return HTTPResponse(308, headers: [.init("Location", "admin/")]) }
        guard let file = files[levels[1]] else { return nil }
        return HTTPResponse(200, contentType: file.contentType, headers: headers, body: file.bytes)
    }
}

/// The headers of the files of a page.
enum PageHeaders {
    /// - Parameters:
    ///   - policy: the directives of the Content-Security-Policy.
    ///   - permissions: the Permissions-Policy.
    static func all(policy: [String], permissions: String) -> [HTTPResponse.Header] {
        [
            .init("Content-Security-Policy", policy.joined(separator: "; ")),
            .init("X-Content-Type-Options", "nosniff"),
            .init("Referrer-Policy", "no-referrer"),
            .init("Permissions-Policy", permissions),
            // A new build of the page is used from the next visit on.
            .init("Cache-Control", "no-cache"),
        ]
    }
}
