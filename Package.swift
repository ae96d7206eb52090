// swift-tools-version: 6.2
import PackageDescription

/// Every target is built in Swift 6 mode with warnings as errors, so that doubtful code is corrected at once.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

// Apple's platforms build the SDK and the drop-ins over Network.framework; the service is for Linux.
// BELLWIRE_APPLE shows on Linux what they build (Tests/IntegrationTests/test_apple.py).
#if os(Linux)
    let isLinux = Context.environment["BELLWIRE_APPLE"] == nil
#else
    let isLinux = false
#endif

/// The targets that apps link: no system library, and no target of the service, on Apple's platforms.
let sdk: [Target] = [
    .target(name: "Basics", swiftSettings: strict),
    .target(name: "MQTTProtocol", dependencies: ["Basics"], swiftSettings: strict),
    .target(name: "SignalingProtocol", swiftSettings: strict),
    .target(name: "BellwireClientCore", dependencies: ["SignalingProtocol", "Basics"], swiftSettings: strict),
    .target(
        name: "BellwireClient",
        dependencies: ["BellwireClientCore", "MQTTProtocol", "Basics"] + (isLinux ? ["MQTTClient", "Support"] : []),
        exclude: [isLinux ? "Apple" : "Linux"], swiftSettings: strict),
    .target(
        name: "DropInSupport", dependencies: ["BellwireClient", "SignalingProtocol", "Basics"],
        swiftSettings: strict),
    .target(
        name: "ZIMCompat", dependencies: ["DropInSupport", "BellwireClient", "SignalingProtocol", "Basics"],
        swiftSettings: strict),
    .target(
        name: "AgoraSignalClient",
        dependencies: ["BellwireClient", "BellwireClientCore", "DropInSupport", "SignalingProtocol", "Basics"],
        swiftSettings: strict),
    .target(
        name: "ZegoCallProtocol", dependencies: ["SignalingProtocol"] + (isLinux ? ["Tokens"] : []),
        swiftSettings: strict),
    .target(
        name: "ZegoCallCompat",
        dependencies: [
            "BellwireClient", "BellwireClientCore", "DropInSupport", "SignalingProtocol", "ZegoCallProtocol", "Basics",
        ], swiftSettings: strict),
    // On Linux over stand-ins for Apple's frameworks, for tests.
    .target(
        name: "BellwireCallKit",
        dependencies: ["BellwireClient", "BellwireClientCore", "SignalingProtocol"]
            + (isLinux ? ["AVFoundation", "CallKit", "CryptoKit", "PushKit"] : []), swiftSettings: strict),
]

let sdkProducts: [Product] = [
    .library(name: "BellwireClient", targets: ["BellwireClient"]),
    // The SDK without a transport, for apps with their own MQTT client.
    .library(name: "BellwireClientCore", targets: ["BellwireClientCore"]),
    // Drop-ins for other services' SDKs (docs/migrate).
    .library(name: "ZIMCompat", targets: ["ZIMCompat"]),
    .library(name: "AgoraSignalClient", targets: ["AgoraSignalClient"]),
    .library(name: "ZegoCallCompat", targets: ["ZegoCallCompat"]),
]

let appleProducts: [Product] = [.library(name: "BellwireCallKit", targets: ["BellwireCallKit"])]

/// The commit that `bellwire --version` names. The environment tells it where the build has no git, as in a container.
let commit = (Context.environment["BELLWIRE_COMMIT"] ?? Context.gitInformation?.currentCommit ?? "unknown")
    .prefix(12).filter { $0.isASCII && ($0.isLetter || $0.isNumber) }

/// C libraries come from apt through module maps; `scripts/deps` installs them.
let service: [Target] = [
    .systemLibrary(name: "CSQLite"),
    .systemLibrary(name: "CHiredis"),
    .systemLibrary(name: "CMicrohttpd"),
    .systemLibrary(name: "CMosquitto"),
    .systemLibrary(name: "CMosquittoBroker"),
    .systemLibrary(name: "CCurl"),
    .target(name: "CBuildCommit", cSettings: [.define("BELLWIRE_COMMIT", to: "\"\(commit)\"")]),
    .target(name: "CProcess", dependencies: ["CBuildCommit"]),
    .target(name: "CBrokerSocket"),
    .target(name: "CGatewayFiles"),
    .target(name: "COpenSSL", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),

    .target(name: "Support", swiftSettings: strict),
    .target(name: "CallCore", dependencies: ["SignalingProtocol"], swiftSettings: strict),
    .target(
        name: "CallStore",
        dependencies: ["CallCore", "SignalingProtocol", "Support"],
        swiftSettings: strict),
    .target(
        name: "SQLiteStore", dependencies: ["CallCore", "CallStore", "SignalingProtocol", "Support", "CSQLite"],
        swiftSettings: strict),
    .target(
        name: "RedisStore",
        dependencies: ["CallCore", "CallStore", "SignalingProtocol", "Basics", "Support", "CHiredis", "TLSClient"],
        swiftSettings: strict),
    .target(name: "TLSClient", dependencies: ["Basics", "COpenSSL"], swiftSettings: strict),
    .target(
        name: "MQTTClient", dependencies: ["MQTTProtocol", "Basics", "Support", "TLSClient"], swiftSettings: strict),
    .target(
        name: "Delivery",
        dependencies: [
            "CallCore", "CallStore", "HTTPSending", "SignalingProtocol", "Basics", "Support", "Tokens",
            "ZegoCallProtocol", "COpenSSL",
        ],
        swiftSettings: strict),
    .target(
        name: "HTTPSending", dependencies: ["Support", "CCurl", "COpenSSL"],
        swiftSettings: strict),
    .target(
        name: "HTTPServing", dependencies: ["Support", "CMicrohttpd"],
        swiftSettings: strict),
    .target(
        name: "Coordinator",
        dependencies: [
            "SignalingProtocol", "CallCore", "CallStore", "HTTPServing", "MQTTClient", "Support", "Tokens",
        ],
        swiftSettings: strict
    ),
    .target(
        name: "Gateway",
        dependencies: [
            "CallCore", "CallStore", "HTTPServing", "MQTTClient", "Delivery", "SignalingProtocol", "Support",
            "Tokens", "ZegoCallProtocol", "CGatewayFiles",
        ],
        // `CGatewayFiles` contains these files.
        exclude: ["openapi.yaml", "AdminPage"], swiftSettings: strict),
    .target(
        name: "Tokens", dependencies: ["SignalingProtocol", "Support", "COpenSSL"], swiftSettings: strict),
    .target(name: "BrokerAuth", dependencies: ["SignalingProtocol", "Tokens"], swiftSettings: strict),
    .target(
        name: "BellwireBrokerAuth",
        dependencies: [
            "BrokerAuth", "Tokens", "SignalingProtocol", "CMosquittoBroker", "CBrokerSocket", "COpenSSL", "Support",
        ],
        swiftSettings: strict),
    .target(
        name: "BellwireMosquitto",
        dependencies: ["BellwireClientCore", "CMosquitto", "Basics", "Support"], swiftSettings: strict),
    .target(
        name: "BellwireTestKit",
        dependencies: ["BellwireClientCore", "CallCore", "CallStore", "Coordinator", "Support"],
        swiftSettings: strict),
    .target(name: "HistoryChecker", dependencies: ["SignalingProtocol"], swiftSettings: strict),
    .target(
        name: "BellwireSimulator",
        dependencies: [
            "Coordinator", "CallCore", "CallStore", "BellwireClientCore", "SignalingProtocol", "HistoryChecker",
            "Support", "Delivery", "HTTPSending", "Tokens",
        ], swiftSettings: strict),
    .target(
        name: "BellwireCommands",
        dependencies: [
            "Coordinator", "CallCore", "CallStore", "RedisStore", "SQLiteStore", "BellwireClient",
            "BellwireClientCore", "SignalingProtocol", "MQTTClient", "CProcess", "Support", "Delivery",
            "HTTPSending", "Gateway", "HTTPServing", "Tokens", "TLSClient",
        ],
        swiftSettings: strict),
    .executableTarget(
        name: "bellwire", dependencies: ["BellwireCommands"], swiftSettings: strict,
        // A coordinator allocates and frees many small objects; jemalloc saves a tenth of the processor time
        // (docs/performance.md).
        linkerSettings: [.linkedLibrary("jemalloc")]
    ),
    .executableTarget(
        name: "bellwire-lab",
        dependencies: [
            "BellwireClientCore", "BellwireCommands", "BellwireSimulator", "CallCore", "CallStore",
            "HistoryChecker", "MQTTClient", "SignalingProtocol", "Support",
        ],
        swiftSettings: strict,
        // Measurements use the same allocator as a coordinator.
        linkerSettings: [.linkedLibrary("jemalloc")]
    ),

    .target(name: "TemporaryFiles", path: "Tests/TemporaryFiles", swiftSettings: strict),
    .testTarget(
        name: "SignalingProtocolTests", dependencies: ["SignalingProtocol", "FuzzEntries", "Support"],
        swiftSettings: strict),
    .testTarget(
        name: "CallCoreTests", dependencies: ["CallCore", "SignalingProtocol", "Support"], swiftSettings: strict),
    .testTarget(
        name: "CallStoreTests",
        dependencies: [
            "CallStore", "RedisStore", "SQLiteStore", "CallCore", "SignalingProtocol", "CProcess", "FuzzEntries",
            "Support",
        ],
        swiftSettings: strict),
    .testTarget(
        name: "TokensTests", dependencies: ["Tokens", "SignalingProtocol", "Support"],
        swiftSettings: strict),
    .testTarget(
        name: "BrokerAuthTests", dependencies: ["BrokerAuth", "Tokens", "SignalingProtocol"],
        swiftSettings: strict),
    .testTarget(name: "SupportTests", dependencies: ["Basics", "Support"], swiftSettings: strict),
    .testTarget(
        name: "MQTTClientTests",
        dependencies: ["MQTTClient", "MQTTProtocol", "Basics", "Support", "COpenSSL", "TLSClient"],
        swiftSettings: strict),
    .testTarget(
        name: "DeliveryTests",
        dependencies: [
            "Delivery", "CallCore", "CallStore", "FuzzEntries", "HTTPSending", "SignalingProtocol", "Support",
            "Tokens", "TemporaryFiles", "COpenSSL",
        ], swiftSettings: strict),
    .testTarget(
        name: "HTTPSendingTests", dependencies: ["HTTPSending", "Support", "COpenSSL"], swiftSettings: strict),
    .testTarget(
        name: "GatewayTests",
        dependencies: [
            "Gateway", "CallCore", "CallStore", "HTTPServing", "Delivery", "SignalingProtocol", "TemporaryFiles",
            "Tokens", "ZegoCallProtocol",
        ],
        swiftSettings: strict),
    .testTarget(
        name: "HTTPServingTests", dependencies: ["HTTPServing", "HTTPSending", "Support"],
        swiftSettings: strict),
    .testTarget(
        name: "CoordinatorTests",
        dependencies: ["Coordinator", "CallCore", "CallStore", "SignalingProtocol", "Support"],
        swiftSettings: strict
    ),
    .testTarget(
        name: "BellwireClientTests",
        dependencies: [
            "BellwireClient", "BellwireClientCore", "BellwireTestKit", "SignalingProtocol", "Support",
            "TemporaryFiles",
        ],
        swiftSettings: strict),
    .testTarget(
        name: "DropInSupportTests", dependencies: ["DropInSupport", "BellwireClient", "SignalingProtocol"],
        swiftSettings: strict),
    .testTarget(
        name: "ZIMCompatTests",
        dependencies: ["ZIMCompat", "DropInSupport", "BellwireClient", "SignalingProtocol"],
        swiftSettings: strict),
    // Built in Swift 5 mode, which many apps use.
    .executableTarget(
        name: "Telephone", dependencies: ["BellwireClient"], path: "Examples/Telephone",
        swiftSettings: [.swiftLanguageMode(.v5), .treatAllWarnings(as: .error)]),
    // The Swift SDK as the device of the conformance suite.
    .executableTarget(
        name: "conformance-devices", dependencies: ["BellwireClient", "BellwireMosquitto", "SignalingProtocol"],
        path: "Tests/ConformanceDevices", swiftSettings: strict),
    // The transport for Apple's platforms, over stand-ins for Apple's frameworks.
    .target(name: "Network", path: "Tests/AppleStandIns/Network", swiftSettings: strict),
    .target(name: "Security", path: "Tests/AppleStandIns/Security", swiftSettings: strict),
    .target(name: "AVFoundation", path: "Tests/AppleStandIns/AVFoundation", swiftSettings: strict),
    .target(
        name: "CallKit", dependencies: ["AVFoundation"], path: "Tests/AppleStandIns/CallKit", swiftSettings: strict),
    .target(name: "CryptoKit", path: "Tests/AppleStandIns/CryptoKit", swiftSettings: strict),
    .target(name: "PushKit", path: "Tests/AppleStandIns/PushKit", swiftSettings: strict),
    .testTarget(
        name: "BellwireCallKitTests",
        dependencies: [
            "BellwireCallKit", "BellwireClient", "BellwireClientCore", "BellwireTestKit", "CallKit", "PushKit",
            "SignalingProtocol",
        ], swiftSettings: strict),
    .target(
        name: "AppleTransport", dependencies: ["BellwireClientCore", "MQTTProtocol", "Basics", "Network", "Security"],
        path: "Sources/BellwireClient/Apple", exclude: ["MQTTTransport+connecting.swift"], swiftSettings: strict),
    .testTarget(
        name: "TransportTests",
        dependencies: [
            "AppleTransport", "Network", "MQTTProtocol", "BellwireClient", "BellwireClientCore", "BellwireMosquitto",
            "BellwireTestKit", "CProcess",
            "SignalingProtocol", "TemporaryFiles",
        ], swiftSettings: strict),
    .testTarget(
        name: "BellwireSimulatorTests", dependencies: ["BellwireSimulator", "HistoryChecker", "SignalingProtocol"],
        swiftSettings: strict),
    .testTarget(
        name: "HistoryCheckerTests", dependencies: ["HistoryChecker", "SignalingProtocol"], swiftSettings: strict),

    .testTarget(
        name: "AgoraSignalClientTests",
        dependencies: [
            "AgoraSignalClient", "BellwireClient", "BellwireClientCore", "DropInSupport", "SignalingProtocol",
        ], swiftSettings: strict),
    .testTarget(
        name: "ZegoCallCompatTests",
        dependencies: [
            "ZegoCallCompat", "BellwireClient", "BellwireClientCore", "BellwireTestKit", "DropInSupport",
            "SignalingProtocol", "ZegoCallProtocol",
        ], swiftSettings: strict),
    .testTarget(
        name: "ZegoCallProtocolTests", dependencies: ["ZegoCallProtocol", "SignalingProtocol"],
        swiftSettings: strict),
    // Apps from the vendors' documents, in Swift 5 mode, for Tests/IntegrationTests.
    .target(
        name: "DropInProbe", path: "Tests/DropIns/Probe",
        swiftSettings: [.swiftLanguageMode(.v5), .treatAllWarnings(as: .error)]),
    .executableTarget(
        name: "zim-probe", dependencies: ["DropInProbe", "ZIMCompat"], path: "Tests/DropIns/ZIMProbe",
        swiftSettings: [.swiftLanguageMode(.v5), .treatAllWarnings(as: .error)]),
    .executableTarget(
        name: "agora-probe", dependencies: ["AgoraSignalClient", "DropInProbe"], path: "Tests/DropIns/AgoraProbe",
        swiftSettings: [.swiftLanguageMode(.v5), .treatAllWarnings(as: .error)]),
    .executableTarget(
        name: "zego-probe", dependencies: ["DropInProbe", "ZegoCallCompat"], path: "Tests/DropIns/ZegoProbe",
        swiftSettings: [.swiftLanguageMode(.v5), .treatAllWarnings(as: .error)]),

    // An app in Swift 6 mode that uses only public symbols, imports each drop-in alone, and names all symbols of
    // the interfaces.
    .target(
        name: "DropInInterfaces", dependencies: ["AgoraSignalClient", "ZIMCompat", "ZegoCallCompat"],
        path: "Tests/DropIns/Interfaces", packageAccess: false, swiftSettings: strict),

    // The properties that must hold for every input (docs/fuzzing.md), for the tests and for the fuzzer.
    .target(
        name: "FuzzEntries",
        dependencies: [
            "SignalingProtocol", "CallCore", "CallStore", "RedisStore", "Coordinator", "BellwireClientCore",
            "HistoryChecker",
            "MQTTClient", "MQTTProtocol", "Basics", "Support", "Tokens",
        ],
        path: "Tests/Fuzzing/Entries", swiftSettings: strict),
    .testTarget(
        name: "FuzzTests", dependencies: ["FuzzEntries"], path: "Tests/Fuzzing/Tests", swiftSettings: strict),
    .testTarget(name: "TutorialTests", dependencies: ["BellwireClient", "BellwireTestKit"], swiftSettings: strict),
]

let serviceProducts: [Product] = [
    .executable(name: "bellwire", targets: ["bellwire"]),
    // A tool for developers of Bellwire: measurements, simulation, faults. The image does not contain this tool.
    .executable(name: "bellwire-lab", targets: ["bellwire-lab"]),
    .library(name: "BellwireMosquitto", targets: ["BellwireMosquitto"]),
    // A service in memory, for the tests of apps.
    .library(name: "BellwireTestKit", targets: ["BellwireTestKit"]),
    // The plugin that mosquitto loads.
    .library(name: "BellwireBrokerAuth", type: .dynamic, targets: ["BellwireBrokerAuth"]),
]

let package = Package(
    name: "bellwire",
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: sdkProducts + (isLinux ? serviceProducts : appleProducts),
    targets: sdk + (isLinux ? service : [])
)

// The steps of the tutorial (Sources/BellwireClientCore/Documentation.docc), with identical code.
for step in isLinux ? ["1-Connect", "2-Answer", "3-Call"] : [] {
    package.targets.append(
        .executableTarget(
            name: "tutorial-\(step)", dependencies: ["BellwireClient"], path: "Examples/Tutorial/\(step)",
            swiftSettings: strict))
}

// libFuzzer has its own `main`, so this target links only with `--sanitize fuzzer`; scripts/fuzz builds the target.
if Context.environment["BELLWIRE_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "bellwire-fuzz", dependencies: ["FuzzEntries"], path: "Tests/Fuzzing/Target", swiftSettings: strict))
}
