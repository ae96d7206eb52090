import Basics
import Support
import Testing

@Suite struct MutexTests {
    @Test func oneThreadAtATimeChangesTheValue() async {
        let counter = Mutex(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask { for _ in 0..<20_000 { counter.withLock { $0 += 1 } } }
            }
        }
        #expect(counter.withLock(\.self) == 160_000)
    }

    @Test func anErrorLeavesTheMutexFree() {
        struct Failure: Error {}
        let value = Mutex([1])
        #expect(throws: Failure.self) {
            try value.withLock { value throws(Failure) in
                value.append(2)
                throw Failure()
            }
        }
        #expect(value.withLock(\.self) == [1, 2])
    }
}
