import Support

extension SplitMix64 {
    /// True once in `times` times.
    mutating func oneIn(_ times: Int) -> Bool { Int.random(in: 0..<times, using: &self) == 0 }

    mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &self)! }
}
