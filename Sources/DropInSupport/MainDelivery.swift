internal import Dispatch

/// The delivery of a drop-in's callbacks and events to the main queue, in the order of the calls of `deliver`, and
/// never from within the call that caused the callback.
package enum MainDelivery {
    package static func deliver(_ tell: @escaping @Sendable () -> Void) { DispatchQueue.main.async(execute: tell) }
}

/// A closure or delegate of the app that is called on the main queue.
///
/// Sendable: apps in Swift 5 mode pass closures and delegates that are not Sendable. The drop-in only keeps such
/// closures and delegates, and calls them on the main queue, as these apps expect.
package struct OnMain<Value>: @unchecked Sendable {
    package let value: Value

    package init(_ value: Value) { self.value = value }
}

/// A delegate or listener of the app, held weakly, that is called on the main queue.
///
/// Sendable: for the same reason as `OnMain`; reading and clearing a weak reference is safe on any thread.
package struct WeakOnMain: @unchecked Sendable {
    package private(set) weak var object: AnyObject?

    package init(_ object: AnyObject?) { self.object = object }
}
