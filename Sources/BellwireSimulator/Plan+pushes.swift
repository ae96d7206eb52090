import CallCore
import SignalingProtocol

/// The planned acts of sleeping phones and their registrations.
extension Plan {
    /// The combinations of platforms by which phones are reached.
    private static let kinds: [[PushPlatform]] = [
        [.apnsVoIP, .apns], [.apnsVoIP], [.fcm], [.fcm], [.webPush], [.fcm, .webPush], [.apns],
    ]

    /// Draws from a random generator of its own, so that everything else in the world of a seed stays as before.
    mutating func drawPushes() {
        var random = SeededRandom(seed: seed &* 0xA24B_AED4 &+ 11)
        hasPushes = random.chance(500)
        guard hasPushes else { return }
        if !isLite {
            mix.providerFailure = random.pick([0, 50, 300])
            mix.providerThrottling = random.pick([0, 0, 100])
            mix.providerLostAnswer = random.pick([0, 0, 30])
            mix.providerLatency = random.pick([0, 20, 400, 6_000])
            mix.freezeAtOperation = random.pick([0, 0, 1, 5])
            mix.providerConnecting = random.pick([0, 50, 300])
        }
        var platforms: [(device: DeviceAddress, platform: PushPlatform)] = []
        var tokens = 0
        func token(_ device: DeviceAddress) -> String {
            tokens += 1
            return "\(device.userID)-\(device.deviceID)-\(tokens)"
        }
        for device in addresses where random.chance(800) {
            for platform in random.pick(Self.kinds) {
                platforms.append((device, platform))
                add(random.between(0, 2_000), device, .register(platform, token: token(device)))
            }
        }
        guard !platforms.isEmpty else { return }
        drawSleep(&random)
        var at = random.between(0, 8_000)
        while at < duration {
            let (device, platform) = random.pick(platforms)
            switch random.below(10) {
            case 0...3: add(at, device, .register(platform, token: token(device)))
            // Another user takes over the phone, with its token.
            case 4...6:
                let other = random.pick(addresses)
                let token = token(device)
                add(at, device, .register(platform, token: token))
                add(at + random.between(1, 4_000), other, .register(platform, token: token))
            case 7: add(at, device, .unregister(random.pick([nil, platform])))
            default: add(at, device, .reinstall(random.between(10, 6_000), platform, token: token(device)))
            }
            at += random.between(500, 10_000)
        }
    }

    private mutating func drawSleep(_ random: inout SeededRandom) {
        let pause = random.pick([800, 3_000] as [Milliseconds])
        var at = random.between(1_500, 4_000)
        while at < duration {
            let away = random.pick([random.between(100, 3_000), random.between(5_000, 20_000), 3_600_000])
            add(at, random.pick(addresses), .sleep(away))
            at += random.between(1, 2 * pause)
        }
    }
}
