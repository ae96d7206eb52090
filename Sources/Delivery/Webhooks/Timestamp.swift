import CallCore
import Glibc

/// Returns the moment in RFC 3339, in UTC with milliseconds: `2026-09-21T13:46:40.000Z`.
package func timestamp(_ moment: Milliseconds) -> String {
    let (seconds, milliseconds) = moment.quotientAndRemainder(dividingBy: 1000)
    var whole = time_t(milliseconds < 0 ? seconds - 1 : seconds)
    var date = tm()
    gmtime_r(&whole, &date)
    let day = [padded(Int(date.tm_year) + 1900, 4), padded(Int(date.tm_mon) + 1, 2), padded(Int(date.tm_mday), 2)]
    let clock = [date.tm_hour, date.tm_min, date.tm_sec].map { padded(Int($0), 2) }
    let rest = padded(Int(milliseconds < 0 ? milliseconds + 1000 : milliseconds), 3)
    return "\(day.joined(separator: "-"))T\(clock.joined(separator: ":")).\(rest)Z"
}

private func padded(_ number: Int, _ digits: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
}

/// Returns the milliseconds since the epoch of a moment in RFC 3339, as `2026-11-23T08:30:00Z` or
/// `2026-11-23T09:30:00.5+01:00`; nil when the text is not such a moment.
package func moment(_ text: String) -> Milliseconds? {
    var rest = Substring(text)
    func number(_ digits: Int, in range: ClosedRange<Int32>, then end: String) -> Int32? {
        let part = rest.prefix(digits)
        guard part.count == digits, part.allSatisfy(\.isASCII), let number = Int32(part), range.contains(number),
            part.first?.isNumber ?? false
        else { return nil }
        rest = rest.dropFirst(digits)
        guard rest.hasPrefix(end) else { return nil }
        rest = rest.dropFirst(end.count)
        return number
    }
    guard let year = number(4, in: 1970...9999, then: "-"), let month = number(2, in: 1...12, then: "-"),
        let day = number(2, in: 1...31, then: ""), let separator = rest.popFirst(), "Tt ".contains(separator),
        let hour = number(2, in: 0...23, then: ":"), let minute = number(2, in: 0...59, then: ":"),
        let second = number(2, in: 0...60, then: "")
    else { return nil }
    var fraction: Milliseconds = 0
    if rest.first == "." {
        let digits = rest.dropFirst().prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty else { return nil }
        fraction = Milliseconds(String((digits + "000").prefix(3))) ?? 0
        rest = rest.dropFirst(1 + digits.count)
    }
    var offset: Milliseconds = 0
    if let sign = rest.first, "+-".contains(sign) {
        rest = rest.dropFirst()
        guard let hours = number(2, in: 0...23, then: ":"), let minutes = number(2, in: 0...59, then: "") else {
            return nil
        }
        offset = Milliseconds(hours * 60 + minutes) * (sign == "+" ? 60_000 : -60_000)
    } else {
        guard let zone = rest.popFirst(), "Zz".contains(zone) else { return nil }
    }
    guard rest.isEmpty else { return nil }
    var date = tm()
    (date.tm_year, date.tm_mon, date.tm_mday) = (year - 1900, month - 1, day)
    (date.tm_hour, date.tm_min, date.tm_sec) = (hour, minute, second)
    return Milliseconds(timegm(&date)) * 1_000 + fraction - offset
}
