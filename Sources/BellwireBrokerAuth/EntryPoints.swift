import CMosquittoBroker

// The functions that mosquitto looks for in a plugin, and the callbacks (plugin API, version 5). The C callbacks are
// functions, since a closure would inherit the actor isolation of the surrounding code.

@_cdecl("mosquitto_plugin_version")
public func pluginVersion(_ count: Int32, _ versions: UnsafePointer<Int32>?) -> Int32 {
    UnsafeBufferPointer(start: versions, count: Int(count)).contains(MOSQ_PLUGIN_VERSION) ? MOSQ_PLUGIN_VERSION : -1
}

@_cdecl("mosquitto_plugin_init")
public func pluginInit(
    _ identifier: OpaquePointer?, _ context: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
    _ options: UnsafeMutablePointer<mosquitto_opt>?, _ count: Int32
) -> Int32 {
    do {
        let plugin = try Plugin(identifier, UnsafeBufferPointer(start: options, count: Int(count)))
        context?.pointee = Unmanaged.passRetained(plugin).toOpaque()
        for (event, callback) in callbacks {
            let code = mosquitto_callback_register(
                identifier, Int32(event.rawValue), callback, nil, context?.pointee)
            guard code == MOSQ_ERR_SUCCESS.rawValue else { return code }
        }
        return success
    } catch {
        // This result stops the start of the broker: no broker is better than a broker that admits every client.
        log(MOSQ_LOG_ERR, "\(error)")
        return Int32(MOSQ_ERR_INVAL.rawValue)
    }
}

@_cdecl("mosquitto_plugin_cleanup")
public func pluginCleanup(
    _ context: UnsafeMutableRawPointer?, _: UnsafeMutablePointer<mosquitto_opt>?, _: Int32
) -> Int32 {
    guard let context else { return success }
    let plugin = Unmanaged<Plugin>.fromOpaque(context)
    for (event, callback) in callbacks {
        mosquitto_callback_unregister(
            plugin.takeUnretainedValue().identifier, Int32(event.rawValue), callback, nil)
    }
    plugin.release()
    return success
}

func log(_ level: Int32, _ text: String) { bellwire_broker_log(level, "bellwire: \(text)") }

private let success = Int32(MOSQ_ERR_SUCCESS.rawValue)

private typealias Callback = @convention(c) (Int32, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?) -> Int32

private let callbacks: [(event: mosquitto_plugin_event, callback: Callback)] = [
    (MOSQ_EVT_RELOAD, onReload), (MOSQ_EVT_BASIC_AUTH, onBasicAuth), (MOSQ_EVT_ACL_CHECK, onACLCheck),
    (MOSQ_EVT_MESSAGE, onMessage), (MOSQ_EVT_DISCONNECT, onDisconnect), (MOSQ_EVT_TICK, onTick),
]

private func plugin(_ context: UnsafeMutableRawPointer?) -> Plugin? {
    context.map { Unmanaged<Plugin>.fromOpaque($0).takeUnretainedValue() }
}

private func onReload(_: Int32, _: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?) -> Int32 {
    plugin(context)?.reload()
    return success
}

private func onBasicAuth(_: Int32, _ event: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?) -> Int32 {
    guard let plugin = plugin(context), let event else { return Int32(MOSQ_ERR_AUTH.rawValue) }
    return plugin.connect(event.assumingMemoryBound(to: mosquitto_evt_basic_auth.self).pointee)
}

private func onACLCheck(_: Int32, _ event: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?) -> Int32 {
    guard let plugin = plugin(context), let event,
        plugin.permits(event.assumingMemoryBound(to: mosquitto_evt_acl_check.self).pointee)
    else { return Int32(MOSQ_ERR_ACL_DENIED.rawValue) }
    return success
}

private func onMessage(_: Int32, _ event: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?) -> Int32 {
    guard let event else { return success }
    return plugin(context)?.published(event.assumingMemoryBound(to: mosquitto_evt_message.self)) ?? success
}

private func onDisconnect(_: Int32, _ event: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?) -> Int32 {
    guard let event else { return success }
    plugin(context)?.disconnected(event.assumingMemoryBound(to: mosquitto_evt_disconnect.self).pointee)
    return success
}

private func onTick(_: Int32, _ event: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?) -> Int32 {
    plugin(context)?.tick()
    // mosquitto 2.1 sleeps until the next event that it knows of, unless a plugin asks for an earlier tick: tokens
    // would end late at a broker with little to do. The third word of the event is `next_ms` in 2.1, and `next_ns`,
    // which the broker does not read, in 2.0.
    event?.storeBytes(of: tickInterval, toByteOffset: 2 * MemoryLayout<Int>.size, as: Int.self)
    return success
}

/// The interval between two ticks, in milliseconds, as mosquitto 2.0 has it.
private let tickInterval = 100
