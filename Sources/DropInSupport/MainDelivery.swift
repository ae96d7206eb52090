internal import Dispatch

/// Callbacks and events of a drop-in go to the main queue, in the order in which they are handed over, and never from inside the call that
/// caused them.
package enum MainDelivery {
    package static func deliver(_ tell: @escaping @Sendable () -> Void) { DispatchQueue.main.async(execute: tell) }
}

/// What an app hands over to hear of it on the main queue.
///
/// Sendable: apps in Swift 5 mode give closures and delegates that are not. They are only kept here, and called on the main queue, which is
/// what those apps count on.
package struct OnMain<Value>: @unchecked Sendable {
    package let value: Value

    package init(_ value: Value) { self.value = value }
}

/// The same, held weakly: a delegate or a listener.
///
/// Sendable: as `OnMain`; reading and clearing a weak reference is safe on any thread.
package struct WeakOnMain: @unchecked Sendable {
    package private(set) weak var object: AnyObject?

    package init(_ object: AnyObject?) { self.object = object }
}
