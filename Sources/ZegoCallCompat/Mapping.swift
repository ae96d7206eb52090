internal import ZegoCallProtocol

// The conversions between the app's types and the mapping of ZEGO Call, which the gateway uses too.

extension CallType {
    var kind: ZegoCall.Kind {
        switch self {
        case .voice: .voice
        case .video: .video
        }
    }
}

extension DeclineType {
    var decline: ZegoCall.Decline {
        switch self {
        case .decline: .declined
        case .busy: .busy
        }
    }
}

// Apps cast the values of a notification: `as? Int` accepts no other integer type.

extension ZegoCall.Kind {
    var number: Int { Int(rawValue) }
}

extension ZegoCall.Decline {
    var number: Int { Int(rawValue) }
}

extension ZegoCall.Party {
    var parameter: [String: Any] { ["id": id, "name": name] }
}
