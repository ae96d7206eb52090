/// The settings of all requests of a sender.
struct SenderSettings: Sendable {
    /// The file of the trusted certificate authorities; nil for the system's.
    let certificateAuthorityFile: String?
    let userAgent: String
}

/// A request as it was posted.
struct PostedRequest: Sendable {
    let request: HTTPRequest
    /// The time of posting, by the boot clock.
    let time: Int64

    func answer(_ outcome: HTTPAnswer.Outcome, at now: Int64) -> HTTPAnswer {
        HTTPAnswer(id: request.id, outcome: outcome, took: now - time)
    }
}
