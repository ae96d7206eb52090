import CallCore

/// The text of sightings, in the same form in every store: the time of the last report, and a line for each broker with
/// its name, seen, epoch, since, 1 when it is away or else 0, and of a roll call its `until` and its coordinator.
extension BrokerSightings {
    package var text: String {
        let lines = sightings.map { sighting in
            var line =
                "\(sighting.name) \(sighting.seen) \(sighting.epoch) \(sighting.since) \(sighting.isAway ? 1 : 0)"
            if let rollCall = sighting.rollCall { line += " \(rollCall.until) \(rollCall.coordinator)" }
            return line
        }
        return ([String(reported)] + lines).joined(separator: "\n")
    }

    /// Returns nil when `text` is not the text of sightings.
    package init?(_ text: String) {
        func time(_ word: some StringProtocol) -> Milliseconds? {
            Milliseconds(word).flatMap { StoredNumber.times.contains($0) ? $0 : nil }
        }
        let lines = text.split(separator: "\n")
        guard let first = lines.first, let reported = time(first) else { return nil }
        var sightings: [BrokerSighting] = []
        for line in lines.dropFirst() {
            let words = line.split(separator: " ", maxSplits: 6, omittingEmptySubsequences: false).map(String.init)
            guard words.count == 5 || words.count == 7, let seen = time(words[1]), let epoch = Int(words[2]),
                let since = time(words[3]), ["0", "1"].contains(words[4])
            else { return nil }
            var sighting = BrokerSighting(name: words[0], seen: seen)
            (sighting.epoch, sighting.since, sighting.isAway) = (epoch, since, words[4] == "1")
            if words.count == 7 {
                guard let until = time(words[5]) else { return nil }
                sighting.rollCall = BrokerSighting.RollCall(coordinator: words[6], until: until)
            }
            sightings.append(sighting)
        }
        self.init(sightings, reported: reported)
    }
}
