/// What all requests of one sender have in common.
struct SenderSettings: Sendable {
    /// A file with the certificate authorities to trust; the system's when nil.
    let certificateAuthorityFile: String?
    let userAgent: String
}

/// A request as it was given to be sent.
struct PostedRequest: Sendable {
    let request: HTTPRequest
    /// When, by the boot clock.
    let time: Int64

    func answer(_ outcome: HTTPAnswer.Outcome, at now: Int64) -> HTTPAnswer {
        HTTPAnswer(id: request.id, outcome: outcome, took: now - time)
    }
}
