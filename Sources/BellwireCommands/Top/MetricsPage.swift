/// The metrics of a process, read from the text format of Prometheus.
struct MetricsPage {
    private struct Sample {
        let labels: [String: String]
        let value: Double
    }

    private var samples: [String: [Sample]] = [:]

    /// Values beyond this, which no process shows, could not be printed as whole numbers.
    private static let mostValue = 1e15

    /// Reads a page. Lines in another form are passed over.
    init(_ text: String) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]),
                abs(value) < Self.mostValue
            else { continue }
            let series = line[..<space]
            guard let brace = series.firstIndex(of: "{") else {
                samples[String(series), default: []].append(Sample(labels: [:], value: value))
                continue
            }
            let labels = Self.labels(in: series[series.index(after: brace)...])
            samples[String(series[..<brace]), default: []].append(Sample(labels: labels, value: value))
        }
    }

    /// Reads `name="value",…}`. A backslash stands before a quote, a backslash or an `n` in a value.
    private static func labels(in text: Substring) -> [String: String] {
        var labels: [String: String] = [:]
        var rest = text
        while let equals = rest.firstIndex(of: "=") {
            let name = rest[..<equals].drop { $0 == "," || $0 == " " }
            var value = ""
            var isEscaped = false
            var place = rest.index(after: equals)
            guard place < rest.endIndex, rest[place] == "\"" else { return labels }
            place = rest.index(after: place)
            while place < rest.endIndex, isEscaped || rest[place] != "\"" {
                if isEscaped {
                    value.append(rest[place] == "n" ? "\n" : rest[place])
                    isEscaped = false
                } else if rest[place] == "\\" {
                    isEscaped = true
                } else {
                    value.append(rest[place])
                }
                place = rest.index(after: place)
            }
            labels[String(name)] = value
            guard place < rest.endIndex else { return labels }
            rest = rest[rest.index(after: place)...]
        }
        return labels
    }

    /// Returns the sum of a metric over all its labels that fit `isCounted`; nil when there is no such series.
    func sum(_ name: String, where isCounted: ([String: String]) -> Bool = { _ in true }) -> Double? {
        let values = (samples[name] ?? []).filter { isCounted($0.labels) }.map(\.value)
        return values.isEmpty ? nil : values.reduce(0, +)
    }

    /// Returns the sums of a metric by the values of a label.
    func sums(_ name: String, by label: String) -> [String: Double] {
        var sums: [String: Double] = [:]
        for sample in samples[name] ?? [] { sums[sample.labels[label] ?? "", default: 0] += sample.value }
        return sums
    }

    /// Returns the counts of a histogram up to each bound, over all its labels that fit `isCounted`.
    func buckets(_ name: String, where isCounted: ([String: String]) -> Bool = { _ in true }) -> [Double: Double] {
        var buckets: [Double: Double] = [:]
        for sample in samples[name + "_bucket"] ?? [] where isCounted(sample.labels) {
            if let bound = sample.labels["le"].flatMap({ $0 == "+Inf" ? .infinity : Double($0) }) {
                buckets[bound, default: 0] += sample.value
            }
        }
        return buckets
    }
}

/// Returns the estimate of a quantile that Prometheus's `histogram_quantile` makes: even distribution within a bucket,
/// and the greatest finite bound for the last bucket. Nil for an empty histogram.
func quantile(_ share: Double, _ buckets: [Double: Double]) -> Double? {
    let sorted = buckets.sorted { $0.key < $1.key }
    guard let total = sorted.last?.value, total > 0 else { return nil }
    let rank = share * total
    var (lower, before) = (0.0, 0.0)
    for (bound, count) in sorted {
        if count >= rank {
            guard bound.isFinite else { return lower }
            return count > before ? lower + (bound - lower) * (rank - before) / (count - before) : bound
        }
        (lower, before) = (bound, count)
    }
    return lower
}
