/// SplitMix64: the same numbers on every run and every machine.
struct SeededRandom: Sendable {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A generator of its own, so that one part of a world draws the same numbers whatever the others do.
    mutating func fork() -> SeededRandom { SeededRandom(seed: next()) }

    /// 0..<bound.
    mutating func below(_ bound: Int) -> Int { bound < 2 ? 0 : Int(next() % UInt64(bound)) }

    mutating func between(_ low: Int64, _ high: Int64) -> Int64 {
        high <= low ? low : low + Int64(next() % UInt64(high - low + 1))
    }

    /// True so many times in a thousand.
    mutating func chance(_ perMille: Int) -> Bool { below(1000) < perMille }

    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }

    /// One of the choices, by weight.
    mutating func weighted<Element>(_ choices: [(Int, Element)]) -> Element {
        var rest = below(choices.reduce(0) { $0 + $1.0 })
        for (weight, choice) in choices {
            if rest < weight { return choice }
            rest -= weight
        }
        return choices[choices.count - 1].1
    }

    /// `count` different ones, in a random order.
    mutating func sample<Element>(_ elements: [Element], _ count: Int) -> [Element] {
        var rest = elements
        var sample: [Element] = []
        while sample.count < count, !rest.isEmpty { sample.append(rest.remove(at: below(rest.count))) }
        return sample
    }
}
