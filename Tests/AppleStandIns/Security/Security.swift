// swift-format-ignore-file: AlwaysUseLowerCamelCase
import Dispatch

// A stand-in for the parts of Apple's Security.framework and CoreFoundation that BellwireClient uses, for type checks
// on Linux. The functions do nothing.

public class CFAllocator {}
public class CFData {}
public class CFMutableArray {}
public class CFError {}
public struct CFArrayCallBacks { public init() {} }
nonisolated(unsafe) public var kCFTypeArrayCallBacks = CFArrayCallBacks()

public func CFDataCreate(_ allocator: CFAllocator?, _ bytes: UnsafePointer<UInt8>?, _ length: Int) -> CFData? { nil }
public func CFArrayCreateMutable(
    _ allocator: CFAllocator?, _ capacity: Int, _ callBacks: UnsafePointer<CFArrayCallBacks>?
) -> CFMutableArray? { nil }
public func CFArrayAppendValue(_ array: CFMutableArray?, _ value: UnsafeRawPointer?) {}

public class SecCertificate {}
public class SecTrust {}

public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? { nil }
@discardableResult
public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ anchors: CFMutableArray?) -> Int32 { 0 }
public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool { false }

public typealias sec_trust_t = AnyObject
public typealias sec_protocol_metadata_t = AnyObject
public typealias sec_protocol_verify_complete_t = (Bool) -> Void

public func sec_trust_copy_ref(_ trust: sec_trust_t) -> Unmanaged<SecTrust> { Unmanaged.passRetained(SecTrust()) }
public func sec_protocol_options_set_verify_block(
    _ options: AnyObject,
    _ verify: @escaping (sec_protocol_metadata_t, sec_trust_t, @escaping sec_protocol_verify_complete_t) -> Void,
    _ queue: DispatchQueue
) {}
