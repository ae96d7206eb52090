import Foundation
import SignalingProtocol
import Testing

struct ErrorCodeTests {
    private func documentation(_ name: String) throws -> String {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try String(contentsOf: root.appending(path: "docs/\(name)"), encoding: .utf8)
    }

    @Test func codesAreThoseOfTheSchema() throws {
        let lines = try documentation("asyncapi.yaml").split(separator: "\n", omittingEmptySubsequences: false)
        let start = try #require(lines.firstIndex(of: "    ErrorCode:"))
        let codes = lines[start...].drop { !$0.hasSuffix("enum:") }.dropFirst()
            .prefix { $0.hasPrefix("        - ") }.map { String($0.dropFirst("        - ".count)) }
        #expect(Set(codes) == Set(ErrorCode.all.map(\.rawValue)))
        #expect(codes.count == ErrorCode.all.count)
    }

    @Test func everyCodeStandsInTheProtocol() throws {
        let text = try documentation("protocol.md")
        for code in ErrorCode.all { #expect(text.contains("`\(code)`"), "\(code)") }
    }

    @Test func noCodeStandsTwice() {
        #expect(Set(ErrorCode.all).count == ErrorCode.all.count)
    }

    @Test func everyNameOfTheVocabularyStandsInTheProtocol() throws {
        let text = try documentation("protocol.md")
        let names =
            MemberState.allCases.map(\.rawValue) + BellwireCallState.allCases.map(\.rawValue)
            + EndReason.allCases.map(\.rawValue)
            + EventName.allCases.map(\.rawValue) + CallMode.allCases.map(\.rawValue)
        for name in names { #expect(text.contains("`\(name)`"), "\(name)") }
    }

    @Test func anErrorCarriesOnlyWhatItHas() {
        let error = SignalingError(.invalidState, "no", state: "accepted")
        #expect(
            DownMessage.error(error).encoded()
                == utf8(#"{"type":"error","error":{"code":"invalidState","message":"no","state":"accepted"}}"#))
        #expect(error.description == "invalidState: no")
    }
}
