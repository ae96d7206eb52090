public import BellwireClientCore
public import Foundation

/// `localizedDescription` is the text of the service or of the SDK, in English, or the code where there is no text.
extension SignalingError: LocalizedError {
    public var errorDescription: String? { message.isEmpty ? code.rawValue : message }
}
