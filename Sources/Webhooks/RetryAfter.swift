import CallCore
import Glibc

/// The header `Retry-After` (RFC 9110, section 10.2.3).
package enum RetryAfter {
    /// For how long it asks from `now`: seconds, or a moment by the clock of the calendar. Nil when it is neither.
    package static func milliseconds(_ value: String, now: Milliseconds) -> Milliseconds? {
        if isDigits(value) {
            // More than fits is more than counts.
            return min(Int64(value) ?? .max, RetryDelay.longestAsked / 1000) * 1000
        }
        return moment(value).map { min(max(0, $0 - now), RetryDelay.longestAsked) }
    }

    /// A date in one of the three forms that HTTP has (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`,
    /// `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`. Years of two digits are of this century.
    private static func moment(_ text: String) -> Milliseconds? {
        let words = text.split { $0 == " " || $0 == "," || $0 == "-" }
        let isLastForm = words.count == 5
        guard isLastForm || words.count == 6 && words[5] == "GMT" else { return nil }
        let (day, month) = isLastForm ? (words[2], words[1]) : (words[1], words[2])
        let (year, time) = isLastForm ? (words[4], words[3]) : (words[3], words[4])
        let clock = time.split(separator: ":", omittingEmptySubsequences: false)
        guard let day = number(day, in: 1...31), let month = months.firstIndex(of: String(month)),
            let year = number(year, in: 0...9999), clock.count == 3, let hour = number(clock[0], in: 0...23),
            let minute = number(clock[1], in: 0...59), let second = number(clock[2], in: 0...60)
        else { return nil }
        var date = tm()
        date.tm_year = (year < 100 ? year + 2000 : year) - 1900
        date.tm_mon = Int32(month)
        (date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec) = (day, hour, minute, second)
        return Milliseconds(timegm(&date)) * 1000
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func number(_ text: Substring, in range: ClosedRange<Int32>) -> Int32? {
        guard isDigits(text), let number = Int32(text), range.contains(number) else { return nil }
        return number
    }

    private static func isDigits(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
    }
}
