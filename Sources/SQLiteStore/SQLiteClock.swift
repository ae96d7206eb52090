import CallCore
import CallStore

/// The time of all processes that share a file: the boot clock of their machine, which cannot be set, plus an offset in
/// the file.
///
/// After a restart of the machine, the offset is computed anew from the wall clock. The time never goes back behind the
/// last time that a process has seen.
struct SQLiteClock {
    private let machine: MachineClock
    /// The store's time minus the boot clock.
    private var offset: Milliseconds = 0
    private(set) var shared = SharedClock()

    init(_ database: SQLiteDatabase, _ machine: MachineClock) throws(StoreError) {
        self.machine = machine
        try look(database)
    }

    var now: Milliseconds { machine.boot() + offset }

    /// The store's time minus the machine's wall clock.
    var skew: Milliseconds { now - machine.wall() }

    /// Agrees with the other processes on the time, within a transaction.
    mutating func look(_ database: SQLiteDatabase) throws(StoreError) {
        let row = try database.query(
            "SELECT boot_id, offset, agreed FROM clock",
            read: { (row) throws(StoreError) -> (String, Milliseconds, String)? in
                (row.text(0), row.integer(1), row.text(2))
            }
        ).first
        let (boot, wall) = machine.atOnce()
        var expected: Milliseconds?
        if let row, row.0.utf8.elementsEqual(machine.bootID.utf8), !machine.bootID.isEmpty,
            StoredNumber.differences.contains(row.1)
        {
            expected = boot + row.1
        }
        shared = row.flatMap { SharedClock($0.2) } ?? SharedClock()
        offset = shared.look(raw: wall, expected: expected, wall: wall) - boot
        try database.run(
            "INSERT OR REPLACE INTO clock VALUES(1,?,?,?)", .text(machine.bootID), .integer(offset),
            .text(shared.text))
    }
}
