import CallCore
import CallStore
import SignalingProtocol

/// The open requests of users and the bytes that the store keeps because of users, for the limits of both.
extension SQLiteCallStore {
    func number(of count: OutstandingCount) throws(StoreError) -> OutstandingNumber {
        guard count.isByInvitee else {
            let counts = try database.query(
                "SELECT count(*) FROM outstanding WHERE user_id=? AND kind=? AND until>?", .id(count.user),
                .text(count.kind.rawValue), .integer(count.after)
            ) { Int($0.integer(0)) }
            return OutstandingNumber(count: counts.first ?? 0)
        }
        let names = try database.query(
            "SELECT name FROM outstanding WHERE user_id=? AND kind=? AND until>? LIMIT ?", .id(count.user),
            .text(count.kind.rawValue), .integer(count.after), .integer(Int64(count.limit))
        ) { $0.text(0) }
        return OutstandingNumber(invitations: names)
    }

    func writeOutstanding(of commit: Commit) throws(StoreError) {
        for (asked, until) in commit.asked {
            try database.run(
                "INSERT OR REPLACE INTO outstanding VALUES(?,?,?,?)", .id(asked.user), .text(asked.kind.rawValue),
                .text(asked.name), .integer(until))
        }
        for settled in commit.settled {
            try database.run(
                "DELETE FROM outstanding WHERE user_id=? AND kind=? AND name=?", .id(settled.user),
                .text(settled.kind.rawValue), .text(settled.name))
        }
    }

    func bytes(of stored: StoredPeriods) throws(StoreError) -> [Int] {
        var bytes: [Int] = []
        for period in stored.periods { bytes.append(try self.bytes(of: period)) }
        return bytes
    }

    private func bytes(of period: StoredPeriod) throws(StoreError) -> Int {
        let bytes = try database.query(
            "SELECT bytes FROM stored WHERE user_id=? AND period=?", .id(period.user), .integer(period.number)
        ) { Int($0.integer(0)) }
        return bytes.first ?? 0
    }

    package func charge(_ charges: [StoredCharge]) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            for charge in charges {
                try database.run(
                    """
                    INSERT INTO stored VALUES(?1,?2,?3,?4)
                    ON CONFLICT(user_id, period) DO UPDATE SET bytes=bytes+?3, until=?4
                    """, .id(charge.period.user), .integer(charge.period.number), .integer(Int64(charge.bytes)),
                    .integer(charge.until))
            }
        }
    }
}
