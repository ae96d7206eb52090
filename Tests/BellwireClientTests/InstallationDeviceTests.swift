import BellwireClientCore
import Foundation
import TemporaryFiles
import Testing

@testable import BellwireClient

/// The devices of an installation: each running program has a device, and the next program in its place has the same
/// device.
@Suite struct InstallationDeviceTests {
    private let home: TemporaryDirectory
    private let devices: InstallationDevice

    init() throws {
        home = try TemporaryDirectory()
        devices = InstallationDevice(directory: home.path + "/share/bellwire")
    }

    private func kept(_ name: String) throws -> String {
        try String(contentsOfFile: "\(home.path)/share/bellwire/\(name)", encoding: .utf8)
    }

    private func keep(_ content: String) throws {
        let directory = home.path + "/share/bellwire"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try home.write("share/bellwire/device", content)
    }

    @Test func aProgramBesideAnotherIsAnotherDeviceAndOneAfterAnotherTheSame() throws {
        let first = try devices.claim()
        var second: InstallationDevice.Claim? = try devices.claim()
        let secondID = try #require(second?.id)
        let third = try devices.claim()
        #expect(Set([first.id, secondID, third.id]).count == 3)
        #expect(try kept("device") == first.id.string && kept("device-2") == secondID.string)
        second = nil
        let again = try devices.claim()
        #expect(again.id == secondID)
        withExtendedLifetime((first, third, again)) {}
    }

    @Test func theLastOneEndsAndTheFirstDeviceIsTheNextOnes() throws {
        let id = try devices.claim().id
        #expect(try devices.claim().id == id)
        #expect(!FileManager.default.fileExists(atPath: home.path + "/share/bellwire/device-2"))
    }

    @Test func whatAnEarlierVersionKeptIsTheFirstDevice() throws {
        try keep("mine\n")
        #expect(try devices.claim().id == DeviceID("mine"))
    }

    @Test func thereAreSixteenAndTheNextProgramIsToldSo() throws {
        var claims = try (1...InstallationDevice.programs).map { _ in try devices.claim() }
        #expect(Set(claims.map(\.id)).count == 16)
        let error = #expect(throws: SignalingError.self) { try devices.claim() }
        #expect(error?.code == .badRequest)
        #expect(error?.message.hasPrefix("device: 16 programs") ?? false)
        #expect(error?.message.contains(home.path) ?? false)
        let free = claims.remove(at: 6).id
        #expect(try devices.claim().id == free)
        withExtendedLifetime(claims) {}
    }

    @Test func ofSeveralThatBeginAtOnceEachHasItsOwn() async throws {
        let devices = devices
        let claims = try await withThrowingTaskGroup(of: InstallationDevice.Claim.self) { group in
            for _ in 1...InstallationDevice.programs { group.addTask { try devices.claim() } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(claims.map(\.id)).count == 16)
        let files = try FileManager.default.contentsOfDirectory(atPath: home.path + "/share/bellwire")
        #expect(files.count == 16, "no draft is left")
        withExtendedLifetime(claims) {}
    }

    @Test func aFileThatIsNoneIsPassedOver() throws {
        try keep("")
        let claim = try devices.claim()
        #expect(try kept("device-2") == claim.id.string)
        withExtendedLifetime(claim) {}
    }

    @Test func whereNothingCanBeKeptTheDeviceIsOfThisProcess() throws {
        try home.write("file", "")
        let nowhere = [InstallationDevice(directory: nil), InstallationDevice(directory: home.path + "/file/bellwire")]
        for devices in nowhere { #expect(try devices.claim().id != devices.claim().id) }
    }

    @Test func aProcessIsOneDevice() throws {
        let configuration = try SignalingClient.Configuration(user: "alice", broker: "mqtt://x")
        #expect(try SignalingClient.Configuration(user: "alice", broker: "mqtt://x").device == configuration.device)
        #expect(configuration.device == .ofThisInstallation)
    }
}
