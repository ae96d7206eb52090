import BellwireClientCore
import CMosquitto
import Glibc

/// The callbacks of libmosquitto, and their meaning for the connection.
extension MosquittoClient {
    func setCallbacks() {
        mosquitto_user_data_set(handle, Unmanaged.passUnretained(self).toOpaque())
        mosquitto_connect_v5_callback_set(handle) { _, client, code, _, properties in
            of(client).connectAnswered(code, properties)
        }
        mosquitto_subscribe_v5_callback_set(handle) { _, client, _, count, levels, _ in
            of(client).subscriptionAnswered(UnsafeBufferPointer(start: levels, count: Int(count)))
        }
        mosquitto_publish_v5_callback_set(handle) { _, client, _, _, _ in of(client).backlog -= 1 }
        mosquitto_unsubscribe_v5_callback_set(handle) { _, client, _, _ in of(client).isProbing = false }
        mosquitto_message_v5_callback_set(handle) { _, client, message, _ in
            guard let message = message?.pointee else { return }
            let payload = Array(UnsafeRawBufferPointer(start: message.payload, count: Int(message.payloadlen)))
            of(client).received.append(.received(payload: payload, isRetained: message.retain))
        }
        mosquitto_disconnect_v5_callback_set(handle) { _, client, code, properties in
            of(client).disconnected(code, properties)
        }
        mosquitto_log_callback_set(handle) { _, client, level, text in
            if level == MOSQ_LOG_ERR, let text { of(client).complaint = String(cString: text) }
        }
    }

    private func connectAnswered(_ code: Int32, _ properties: OpaquePointer?) {
        guard code == 0 else {
            let name = transport.version == .v5 ? mosquitto_reason_string(code) : mosquitto_connack_string(code)
            // Unavailable, busy, shutting down, quota or rate exceeded: the broker may accept the same client a moment
            // later.
            let kind: BellwireTransportError.Kind =
                [3, 0x88, 0x89, 0x8B, 0x97, 0x9F].contains(code) ? .unreachable : .refused
            return verdict = BellwireTransportError(kind, "the broker refused: \(reason(properties, name))")
        }
        isConnected = true
        var (size, seconds) = (UInt32(largestPacket), UInt16.max)
        mosquitto_property_read_int32(properties, Int32(MQTT_PROP_MAXIMUM_PACKET_SIZE.rawValue), &size, false)
        mosquitto_property_read_int16(properties, Int32(MQTT_PROP_SERVER_KEEP_ALIVE.rawValue), &seconds, false)
        largestPacket = Int(size)
        if seconds < .max { keepAlive = seconds == 0 ? .seconds(Int32.max) : .seconds(Int(seconds)) }
        for topic in request.topics where mosquitto_subscribe(handle, nil, topic, Int32(request.qos.rawValue)) != 0 {
            verdict = BellwireTransportError(.invalid, "\(topic) is not a topic to subscribe to")
        }
    }

    private func subscriptionAnswered(_ levels: UnsafeBufferPointer<Int32>) {
        ungranted -= 1
        guard levels.contains(where: { $0 >= 0x80 }) else { return }
        verdict = BellwireTransportError(.refused, "the broker refuses a subscription")
    }

    private func disconnected(_ code: Int32, _ properties: OpaquePointer?) {
        // Codes below 0x80 are libmosquitto's own codes, which the functions of libmosquitto return too.
        guard code >= 0x80, verdict == nil else { return }
        let isEnded = code == MQTT_RC_ADMINISTRATIVE_ACTION.rawValue
        let kind = isEnded ? BellwireTransportError.Kind.ended : .lost(isClean: false)
        let text = "the broker disconnects: \(reason(properties, mosquitto_reason_string(code)))"
        verdict = BellwireTransportError(code == MQTT_RC_SESSION_TAKEN_OVER.rawValue ? .takenOver : kind, text)
    }

    private func reason(_ properties: OpaquePointer?, _ name: UnsafePointer<CChar>?) -> String {
        let text = bellwire_mosquitto_reason(properties)
        defer { free(text) }
        return (text.map { String(cString: $0) } ?? name.map { String(cString: $0) }) ?? "no reason"
    }

    /// Throws when the broker has closed the connection, or there never was a connection: libmosquitto does not always
    /// say so.
    func judgeEnd(of socket: Int32) throws(BellwireTransportError) {
        var byte: UInt8 = 0
        let count = recv(socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
        if count == 0 { throw lost("the broker closed the connection", isClean: true) }
        if count < 0, errno != EAGAIN, errno != EINTR { throw lost(String(cString: strerror(errno)), isClean: false) }
    }

    /// Throws when the connection has ended, after a function of libmosquitto returned `code`.
    func judge(_ code: Int32) throws(BellwireTransportError) {
        if let verdict { throw verdict }
        guard code > 0 || mosquitto_socket(handle) < 0 else { return }
        let isTLS = complaint.contains("OpenSSL") || code == MOSQ_ERR_TLS.rawValue
        if isTLS, !isConnected { throw BellwireTransportError(.tls, complaint) }
        throw lost(String(cString: mosquitto_strerror(code)), isClean: code == MOSQ_ERR_CONN_LOST.rawValue)
    }

    private func lost(_ text: String, isClean: Bool) -> BellwireTransportError {
        if isConnected { return BellwireTransportError(.lost(isClean: isClean), text) }
        let place = "\(transport.host):\(transport.port)"
        guard isClean else { return BellwireTransportError(.unreachable, "\(place): \(text)") }
        let kind = transport.isTLS ? "with TLS" : "without TLS"
        return BellwireTransportError(.lost(isClean: true), "\(place): \(text): is it a port for MQTT \(kind)?")
    }
}

/// Returns the client of a callback. libmosquitto calls back only while the client lives.
private func of(_ context: UnsafeMutableRawPointer?) -> MosquittoClient {
    Unmanaged<MosquittoClient>.fromOpaque(context!).takeUnretainedValue()
}
