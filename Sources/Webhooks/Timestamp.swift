import CallCore
import Glibc

/// The moment by RFC 3339, in UTC and to the millisecond: `2026-09-21T13:46:40.000Z`.
func timestamp(_ moment: Milliseconds) -> String {
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
