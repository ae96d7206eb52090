import CallStore
import SignalingProtocol

extension BackupHead {
    /// The head as JSON, with the version and the time of the backup for people.
    func text(version: String, moment: String) -> String {
        let bytes = JSONWriter.object { writer in
            writer.field("kind", kind.rawValue)
            writer.field("format", format)
            writer.field("topicRoot", topicRoot)
            writer.field("version", version)
            writer.field("madeAt", moment)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Reads a head; nil for another text.
    init?(_ bytes: ArraySlice<UInt8>) {
        guard case .object(let json)? = try? JSONParser.parse(Array(bytes)),
            let kind = json["kind"]?.string.flatMap(Kind.init), let format = json["format"]?.integer
        else { return nil }
        self.init(kind: kind, format: format, topicRoot: json["topicRoot"]?.string)
    }
}
