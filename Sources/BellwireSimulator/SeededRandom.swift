import Support

/// The random numbers of a world, drawn from its seed.
struct SeededRandom: Sendable {
    private var generator: SplitMix64

    init(seed: UInt64) { generator = SplitMix64(seed: seed) }

    mutating func next() -> UInt64 { generator.next() }

    /// Returns a new generator, so that one part of a world draws the same numbers independent of the other parts.
    mutating func fork() -> SeededRandom { SeededRandom(seed: next()) }

    /// Returns a number in 0..<bound.
    mutating func below(_ bound: Int) -> Int { bound < 2 ? 0 : Int(next() % UInt64(bound)) }

    mutating func between(_ low: Int64, _ high: Int64) -> Int64 {
        high <= low ? low : low + Int64(next() % UInt64(high - low + 1))
    }

    /// Returns true with a probability of `perMille` in a thousand.
    mutating func chance(_ perMille: Int) -> Bool { below(1000) < perMille }

    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }

    /// Returns a random choice by weight.
    mutating func weighted<Element>(_ choices: [(Int, Element)]) -> Element {
        var rest = below(choices.reduce(0) { $0 + $1.0 })
        for (weight, choice) in choices {
            if rest < weight { return choice }
            rest -= weight
        }
        return choices[choices.count - 1].1
    }

    /// Returns `count` different elements in a random order.
    mutating func sample<Element>(_ elements: [Element], _ count: Int) -> [Element] {
        var rest = elements
        var sample: [Element] = []
        while sample.count < count, !rest.isEmpty { sample.append(rest.remove(at: below(rest.count))) }
        return sample
    }
}
