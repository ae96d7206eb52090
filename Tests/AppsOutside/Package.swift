// swift-tools-version: 6.2
import PackageDescription

/// The examples as apps of their own: they see only what is `public`, as a stranger's app does.
let package = Package(
    name: "apps-outside",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "bellwire", path: "../..")],
    targets: ["1-Connect", "2-Answer", "3-Call", "Telephone"].map { app in
        .executableTarget(name: app, dependencies: [.product(name: "BellwireClient", package: "bellwire")])
    })
