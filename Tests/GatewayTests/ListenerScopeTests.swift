import Testing

@testable import Gateway

/// The paths of each listener (docs/operations.md, Acting on calls and users).
@Suite struct ListenerScopeTests {
    @Test func eachRouteIsAtOneListenerOrForLoadBalancers() {
        for route in Route.allCases {
            let levels = route.levels.map(String.init)
            let isForAll = route == .healthy || route == .ready
            #expect(ListenerScope.everything.has(levels))
            #expect(ListenerScope.adminAlone.has(levels) == (route.isAdmin || isForAll))
            #expect(ListenerScope.allButAdmin.has(levels) == !route.isAdmin)
        }
    }

    @Test(arguments: [["admin"], ["admin", ""], ["admin", "admin.js"], ["v1", "admin"], ["v1", "admin", "x", "y"]])
    func whateverIsBelowTheAdministratorsPathsIsTheirs(_ levels: [String]) {
        #expect(ListenerScope.adminAlone.has(levels) && !ListenerScope.allButAdmin.has(levels))
    }

    @Test(arguments: [[], [""], ["v1"], ["healthz", ""], ["administrators"], ["v2", "admin"]])
    func nothingElseIs(_ levels: [String]) {
        #expect(!ListenerScope.adminAlone.has(levels) && ListenerScope.allButAdmin.has(levels))
    }
}
