@_exported import Foundation

// A stand-in for the part of Apple's AVFoundation that BellwireCallKit uses.

public final class AVAudioSession: NSObject {}
