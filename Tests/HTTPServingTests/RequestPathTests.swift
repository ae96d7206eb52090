import Testing

@testable import HTTPServing

struct RequestPathTests {
    @Test(arguments: [
        ("/", [""]), ("/a", ["a"]), ("/a/", ["a", ""]), ("//a", ["", "a"]),
        ("/calls/a%2Fb/%C3%BC", ["calls", "a/b", "ü"]), ("/a+b", ["a+b"]), ("/%2e%2E/..", ["..", ".."]),
        ("/%25", ["%"]), ("/%00", ["\u{0}"]),
    ])
    func aPathHasLevels(path: String, levels: [String]) {
        #expect(RequestPath.levels(path) == levels)
    }

    @Test(arguments: [
        "", "a", "*", "http://host/a", "/%", "/%2", "/%2/a", "/%G0", "/%+1", "/%FF", "/%C3", "/%C3/%BC",
        "/%C0%AF", "/%ED%A0%80",
    ])
    func whatIsNotAPathHasNone(path: String) { #expect(RequestPath.levels(path) == nil) }

    @Test(arguments: [
        ("", []), ("&&", []), ("a", ["a="]), ("a=", ["a="]), ("a=b=c&d=+%2B", ["a=b=c", "d= +"]),
        ("a=1&a=2&%26=%3D", ["a=1", "a=2", "&=="]), ("=x", ["=x"]), ("a=?", ["a=?"]),
    ])
    func aQueryHasNamesAndValues(query: String, pairs: [String]) {
        #expect(RequestQuery.pairs(query)?.map { "\($0.name)=\($0.value)" } == pairs)
    }

    @Test(arguments: ["a=%", "%=a", "a=%FF", "a=1&b=%C3"])
    func whatIsNotAQueryHasNone(query: String) { #expect(RequestQuery.pairs(query) == nil) }
}
