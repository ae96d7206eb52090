internal import ZegoCallProtocol

// Between what an app sees and the one mapping of ZEGO Call, which the gateway has too.

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

// Apps cast what a notification carries: `as? Int` finds no other integer.

extension ZegoCall.Kind {
    var number: Int { Int(rawValue) }
}

extension ZegoCall.Decline {
    var number: Int { Int(rawValue) }
}

extension ZegoCall.Party {
    var parameter: [String: Any] { ["id": id, "name": name] }
}
