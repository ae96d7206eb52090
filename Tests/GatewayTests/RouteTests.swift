import Testing

@testable import Gateway

/// The route of a method and a path (docs/backend.md).
@Suite struct RouteTests {
    @Test func everyRouteIsFoundUnderItsOwnPathWithItsParameters() {
        for route in Route.allCases {
            let levels = route.levels.map { $0.hasPrefix("{") ? "a/b" : String($0) }
            let names = route.levels.filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
            let parameters = Dictionary(uniqueKeysWithValues: names.map { ($0, "a/b") })
            #expect(Route.find(String(route.method), levels) == .found(route, parameters: parameters))
        }
    }

    @Test func aHeadIsAGet() { #expect(Route.find("HEAD", ["healthz"]) == .found(.healthy, parameters: [:])) }

    /// The test names every route without an effect: the author of a new route has to decide whether the route answers
    /// HEAD.
    @Test func onlyWhatChangesNothingAnswersHead() {
        let answering: [Route] = [
            .call, .trace, .history, .user, .devices, .adminOnline, .adminLiveCalls, .adminCalls,
            .adminDevices, .adminCall, .adminWebhooks, .adminDeadLetters, .adminAudit, .description, .healthy, .ready,
            .metrics,
        ]
        #expect(Route.allCases.filter(\.answersHead) == answering)
        #expect(Route.find("HEAD", ["v1", "ring", "c"]) == .wrongMethod(allowed: ["GET", "OPTIONS"]))
        #expect(Route.find("HEAD", ["v1", "ring", "c", "reject"]) == .wrongMethod(allowed: ["POST", "OPTIONS"]))
        #expect(Route.find("HEAD", ["call", "events"]) == .wrongMethod(allowed: ["GET"]))
    }

    @Test func anotherMethodIsToldWhichThereAre() {
        #expect(Route.find("PUT", ["v1", "calls"]) == .wrongMethod(allowed: ["POST"]))
        #expect(Route.find("get", ["v1", "users", "a"]) == .wrongMethod(allowed: ["GET", "HEAD", "PATCH", "DELETE"]))
    }

    @Test(arguments: [
        [], [""], ["v1"], ["v1", "calls", ""], ["v1", "calls", "c", "Accept"], ["v1", "calls", "c", "accept", ""],
        ["v2", "calls"], ["v1", "calls", "c", "{callID}", "x"],
    ])
    func whatIsNoPathIsUnknown(_ levels: [String]) { #expect(Route.find("POST", levels) == .unknown) }

    /// A level that spells a level of the table in another normal form is another level.
    @Test func pathsAreComparedAsBytes() {
        #expect(Route.find("GET", ["v1", "calls", "c", "trace\u{0301}"]) == .unknown)
    }
}
