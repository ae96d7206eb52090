import Foundation
import Glibc
import SignalingProtocol

/// The parser accepts the inputs that Foundation's parser accepts and reads the same values, but for the differences
/// that stand in `Difference`. A parsed value can be written, and reads as the same value.
func checkJSON(_ input: [UInt8]) throws(Finding) {
    let ours = try? JSONParser.parse(input)
    let theirs = try? JSONSerialization.jsonObject(with: Data(input), options: .fragmentsAllowed)
    switch Difference(input, ours, theirs) {
    case .refused(let reason): try hold(ours == nil, "accepted in spite of \(reason)")
    case .accepted(let reason): try hold(ours != nil, "refused in spite of \(reason)")
    case .ofValue(let reason): try hold((ours == nil) == (theirs == nil), "\(reason): the verdict is another")
    case nil:
        switch (ours, theirs) {
        case (nil, nil): break
        case (let ours?, let theirs?): try compare(ours, theirs)
        case (nil, _?): throw Finding("refused")
        case (_?, nil): throw Finding("accepted")
        }
    }
    try checkReading(ours, input)
    guard let ours else { return try hold(JSONText(input) == nil, "a text of what is no value") }
    try checkNumbers(ours, input)
    try checkWriting(ours, input)
}

/// Reading an object field by field accepts the inputs that are parsed as an object, and reads the same values.
private func checkReading(_ parsed: JSONValue?, _ input: [UInt8]) throws(Finding) {
    let read: JSONValue? = input.withUnsafeBufferPointer { bytes in
        var fields: [JSONObject.Field] = []
        let isRead: Void? = try? JSONParser.readObject(bytes) { fields.append(try field($0, &$1)) }
        return isRead.map { .object(JSONObject(fields)) }
    }
    let expected: JSONValue? = if case .object? = parsed { parsed.map(withoutNames) } else { nil }
    try hold(read == expected, "field by field it is another value")
}

/// Reads objects at all levels field by field, and the elements of arrays as values.
private func field(_ name: JSONParser.FieldName, _ json: inout JSONParser) throws -> JSONObject.Field {
    var fields: [JSONObject.Field] = []
    var copy = json
    if try copy.object({ fields.append(try field($0, &$1)) }) {
        json = copy
        return .init(key: "", value: .object(JSONObject(fields)))
    }
    var elements: [JSONValue] = []
    copy = json
    if try copy.array({ elements.append(withoutNames(try $0.value())) }) {
        json = copy
        return .init(key: "", value: .array(elements))
    }
    return .init(key: "", value: try json.value())
}

/// The value with empty field names, since the reader knows names only by comparison.
private func withoutNames(_ value: JSONValue) -> JSONValue {
    switch value {
    case .object(let object):
        .object(JSONObject(object.fields.map { .init(key: "", value: withoutNames($0.value)) }))
    case .array(let elements): .array(elements.map(withoutNames))
    case .null, .bool, .int, .double, .string: value
    }
}

/// The inputs for which the contract (docs/protocol.md, section 1, What is JSON) asks for another result than
/// Foundation's. All deliberate differences stand here.
private enum Difference {
    case refused(String)
    case accepted(String)
    /// Both parsers say the same of whether the input is JSON.
    case ofValue(String)

    init?(_ input: [UInt8], _ ours: JSONValue?, _ theirs: Any?) {
        // Foundation guesses UTF-16 and UTF-32 from zero bytes and byte order marks; the contract is UTF-8, in which a
        // zero byte stands in no JSON, and without a mark.
        if input.contains(0) {
            self = .refused("a zero byte")
        } else if [[0xEF, 0xBB, 0xBF], [0xFE, 0xFF], [0xFF, 0xFE]].contains(where: input.starts(with:)) {
            self = .refused("a byte order mark")
        } else if theirs != nil, Self.hasTrailingComma(input) {
            // Foundation forgives the comma, as JavaScript does.
            self = .refused("a comma after the last one")
        } else if theirs != nil, Self.depth(input) > JSONParser.maxDepth {
            // Foundation's limit is 512. Its value does not tell the depth: of a key that stands twice a value is
            // missing.
            self = .refused("too many levels")
        } else if theirs == nil, let ours, Self.holdsInfinity(ours) {
            // The grammar allows a number beyond the range of a double, and a range check refuses such a number by its
            // field's name. Foundation takes the number for no JSON.
            self = .accepted("a number beyond the range of a double")
        } else if holdsMark(input) {
            // Within a string the mark is a character like any other; Foundation drops the mark at the beginning and
            // behind an escape.
            self = .ofValue("a byte order mark in a string")
        } else {
            return nil
        }
    }

    private static func hasTrailingComma(_ input: [UInt8]) -> Bool {
        let signs = outsideStrings(input).filter { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        return zip(signs, signs.dropFirst()).contains { $0 == UInt8(ascii: ",") && "]}".utf8.contains($1) }
    }

    private static func depth(_ input: [UInt8]) -> Int {
        var (depth, deepest) = (0, 0)
        for sign in outsideStrings(input) {
            if "[{".utf8.contains(sign) { depth += 1 } else if "]}".utf8.contains(sign) { depth -= 1 }
            deepest = max(deepest, depth)
        }
        return deepest
    }

    private static func holdsInfinity(_ value: JSONValue) -> Bool {
        switch value {
        case .double(let number): number.isInfinite
        case .array(let values): values.contains(where: holdsInfinity)
        case .object(let object): object.fields.contains { holdsInfinity($0.value) }
        case .null, .bool, .int, .string: false
        }
    }
}

private func holdsMark(_ bytes: [UInt8]) -> Bool {
    bytes.indices.contains { bytes[$0...].starts(with: [0xEF, 0xBB, 0xBF]) }
}

private func compare(_ ours: JSONValue, _ theirs: Any) throws(Finding) {
    func agree(_ condition: Bool) throws(Finding) { try hold(condition, "\(ours), but \(theirs) by Foundation") }
    switch ours {
    case .null: try agree(theirs is NSNull)
    case .bool(let value): try agree(isBool(theirs) && theirs as? Bool == value)
    case .int(let value): try agree(!isBool(theirs) && (theirs as? NSNumber)?.int64Value == value)
    case .double(let value):
        let number = (theirs as? NSNumber)?.doubleValue ?? .nan
        // Foundation reads more than 17 digits through a Decimal, and is off by the last bits at times. `checkNumbers`
        // compares every number bit by bit with the C library's.
        try agree(!isBool(theirs) && (number == value || abs(number - value) <= abs(value) * 1e-12))
    case .string(let value): try agree((theirs as? String).map { $0.utf8.elementsEqual(value.utf8) } ?? false)
    case .array(let values):
        guard let others = theirs as? [Any], others.count == values.count else { return try agree(false) }
        for (value, other) in zip(values, others) { try compare(value, other) }
    case .object(let object):
        guard let others = theirs as? [String: Any] else { return try agree(false) }
        // The dictionary is Swift's: canonically equivalent keys are the same key, and Foundation does not say which of
        // two equal keys counts. Our object keeps all fields, and the last field counts.
        let fields = Dictionary(grouping: object.fields, by: \.key)
        try agree(fields.count == others.count)
        for (key, values) in fields {
            guard let other = others[key] else { return try agree(false) }
            if values.count == 1 { try compare(values[0].value, other) }
        }
    }
}

private func isBool(_ value: Any) -> Bool { (value as? NSNumber).map { String(cString: $0.objCType) == "c" } ?? false }

/// Compares every number bit by bit with the number that the C library reads, which rounds correctly. `input` is known
/// to be JSON.
private func checkNumbers(_ value: JSONValue, _ input: [UInt8]) throws(Finding) {
    var numbers: [JSONValue] = []
    func collect(_ value: JSONValue) {
        switch value {
        case .int, .double: numbers.append(value)
        case .array(let values): values.forEach(collect)
        case .object(let object): object.fields.forEach { collect($0.value) }
        case .null, .bool, .string: break
        }
    }
    collect(value)
    let spellings = numberSpellings(input)
    try hold(spellings.count == numbers.count, "\(numbers.count) numbers of \(spellings.count)")
    for (spelling, number) in zip(spellings, numbers) {
        let isWhole = !spelling.contains(where: {
            [UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains($0)
        })
        let reference = strtod(text(spelling), nil)
        switch number {
        case .int(let integer):
            try hold(
                isWhole && String(integer) == text(spelling) || text(spelling) == "-0",
                "\(integer) of \(text(spelling))")
        case .double(let double):
            try hold(double.bitPattern == reference.bitPattern, "\(double) of \(text(spelling))")
            try hold(!isWhole || Int64(text(spelling)) == nil, "\(text(spelling)) fits an integer")
        default: break
        }
        try hold(number.integer.map { Double($0) == reference } ?? true, "\(number) is no whole number")
    }
}

/// `input`, which is JSON, with a quotation mark in the place of each string.
private func outsideStrings(_ input: [UInt8]) -> [UInt8] {
    var rest: [UInt8] = []
    var at = 0
    while at < input.count {
        rest.append(input[at])
        if input[at] == UInt8(ascii: "\"") {
            at += 1
            while at < input.count, input[at] != UInt8(ascii: "\"") { at += input[at] == UInt8(ascii: "\\") ? 2 : 1 }
        }
        at += 1
    }
    return rest
}

/// The numbers in `input`, which is JSON, in order.
private func numberSpellings(_ input: [UInt8]) -> [ArraySlice<UInt8>] {
    // The only letter of the literals that could stand in a number is "e", and no number begins with an "e".
    outsideStrings(input).split { !"+-.eE0123456789".utf8.contains($0) }.filter { !$0.elementsEqual("e".utf8) }
}

/// A value is copied byte for byte where it is only passed on; strings and whole numbers are also written anew.
private func checkWriting(_ value: JSONValue, _ input: [UInt8]) throws(Finding) {
    guard let copy = JSONText(input) else { throw Finding("no text of a value") }
    if depth(value) < JSONParser.maxDepth {
        var writer = JSONWriter()
        writer.array { $0.text(copy) }
        let again = try? JSONParser.parse(writer.bytes)
        try hold(again == .array([value]), "\(text(writer.bytes)) is not \(value)")
    }
    let (strings, integers) = (strings(value), integers(value))
    var writer = JSONWriter()
    writer.array { writer in
        for string in strings { writer.string(string) }
        for integer in integers { writer.integer(integer) }
    }
    guard let written = try? JSONParser.parse(writer.bytes),
        let theirs = try? JSONSerialization.jsonObject(with: Data(writer.bytes), options: [])
    else { throw Finding("\(text(writer.bytes)) is not read") }
    let expected = JSONValue.array(strings.map(JSONValue.string) + integers.map(JSONValue.int))
    try hold(written == expected, "\(text(writer.bytes)) is read as \(written)")
    // The bytes are compared as well, since the comparison of strings above passes over differences of bytes.
    for (string, again) in zip(strings, written.array ?? []) {
        try hold(again.string?.utf8.elementsEqual(string.utf8) ?? false, "\(string.debugDescription) became \(again)")
    }
    guard !holdsMark(writer.bytes) else { return }
    try compare(written, theirs)
}

private func depth(_ value: JSONValue) -> Int {
    switch value {
    case .array(let values): 1 + (values.map(depth).max() ?? 0)
    case .object(let object): 1 + (object.fields.map { depth($0.value) }.max() ?? 0)
    case .null, .bool, .int, .double, .string: 0
    }
}

private func strings(_ value: JSONValue) -> [String] {
    switch value {
    case .string(let string): [string]
    case .array(let values): values.flatMap(strings)
    case .object(let object): object.fields.flatMap { [$0.key] + strings($0.value) }
    case .null, .bool, .int, .double: []
    }
}

private func integers(_ value: JSONValue) -> [Int64] {
    switch value {
    case .int(let integer): [integer]
    case .array(let values): values.flatMap(integers)
    case .object(let object): object.fields.flatMap { integers($0.value) }
    case .null, .bool, .double, .string: []
    }
}
