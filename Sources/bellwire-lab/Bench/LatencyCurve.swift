import Glibc

/// A picture of latency against offered rate.
struct LatencyCurve {
    struct Point {
        let offered: Double
        let p50: Double
        let p99: Double
    }

    let title: String
    let points: [Point]

    private static let width = 640.0, height = 400.0, left = 70.0, bottom = 50.0, top = 40.0, right = 20.0

    private var fastest: Double { points.map(\.offered).max() ?? 1 }

    /// The range of the latency axis, as decimal logarithms. The axis is logarithmic, since the curve rises steeply at
    /// its knee.
    private var decades: ClosedRange<Double> {
        let values = points.flatMap { [$0.p50, $0.p99] }.filter { $0 > 0 }
        return log10(values.min() ?? 0.1).rounded(.down)...log10(values.max() ?? 10).rounded(.up)
    }

    private func place(_ rate: Double, _ latency: Double) -> String {
        let span = max(1, decades.upperBound - decades.lowerBound)
        let x = Self.left + rate / fastest * (Self.width - Self.left - Self.right)
        let y =
            Self.height - Self.bottom
            - (log10(max(latency, 0.001)) - decades.lowerBound) / span * (Self.height - Self.bottom - Self.top)
        return "\(text(x)),\(text(y))"
    }

    private func line(_ values: [(Double, Double)], _ colour: String) -> String {
        let path = values.map { place($0.0, $0.1) }.joined(separator: " ")
        let dots = values.map { value in
            let point = place(value.0, value.1).split(separator: ",")
            return "<circle cx=\"\(point[0])\" cy=\"\(point[1])\" r=\"3\" fill=\"\(colour)\"/>"
        }.joined()
        return "<polyline points=\"\(path)\" fill=\"none\" stroke=\"\(colour)\" stroke-width=\"2\"/>\(dots)"
    }

    var svg: String {
        var parts = [
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \(text(Self.width, 0)) \(text(Self.height, 0))\" font-family=\"sans-serif\" font-size=\"12\">",
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
            "<text x=\"\(text(Self.left))\" y=\"22\" font-size=\"14\">invite → ring, \(title)</text>",
        ]
        for decade in stride(from: decades.lowerBound, through: decades.upperBound, by: 1) {
            let from = place(0, pow(10, decade)), to = place(fastest, pow(10, decade))
            let y = from.split(separator: ",")[1]
            parts.append("<polyline points=\"\(from) \(to)\" stroke=\"#ddd\"/>")
            parts.append(
                "<text x=\"\(text(Self.left - 8))\" y=\"\(y)\" text-anchor=\"end\">\(text(pow(10, decade), decade < 0 ? Int(-decade) : 0)) ms</text>"
            )
        }
        for point in points {
            let x = place(point.offered, pow(10, decades.lowerBound)).split(separator: ",")[0]
            parts.append(
                "<text x=\"\(x)\" y=\"\(text(Self.height - 30))\" text-anchor=\"middle\">\(text(point.offered, 0))</text>"
            )
        }
        parts.append(
            "<text x=\"\(text(Self.width / 2))\" y=\"\(text(Self.height - 10))\" text-anchor=\"middle\">calls offered per second (p50 blue, p99 red)</text>"
        )
        parts.append(line(points.map { ($0.offered, $0.p50) }, "#2563eb"))
        parts.append(line(points.map { ($0.offered, $0.p99) }, "#dc2626"))
        return (parts + ["</svg>"]).joined(separator: "\n") + "\n"
    }
}
