import BellwireCommands
import Glibc

/// The resources that a process has used so far, from /proc.
struct ProcessUsage {
    /// The processor time of all threads of the process, user and system, in microseconds.
    let cpu: Double
    /// Resident memory in kilobytes.
    let memory: Int

    init(of pid: pid_t) {
        // `schedstat` counts nanoseconds on a processor, whereas `stat` counts ticks of 10 ms.
        cpu = Self.threads(of: pid).reduce(0) { sum, thread in
            let text = contents("/proc/\(pid)/task/\(thread)/schedstat") ?? ""
            return sum + (text.split(separator: " ").first.flatMap { Double($0) } ?? 0) / 1000
        }
        let pages = contents("/proc/\(pid)/statm")?.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        memory = (pages ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) / 1024
    }

    private static func threads(of pid: pid_t) -> [String] {
        guard let stream = opendir("/proc/\(pid)/task") else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            if entry.name.first != "." { names.append(entry.name) }
        }
        return names
    }
}

/// The resources that a deployment has used so far: microseconds of processor time, and store round trips.
struct Usage {
    var coordinators = 0.0
    var broker = 0.0
    var store = 0.0
    var phones = 0.0
    var storeRoundTrips = 0.0
    /// The current memory of the largest coordinator, in kilobytes.
    var coordinatorMemory = 0
    var storeMemory = 0

    init() {}

    init(of deployment: BenchDeployment) {
        let coordinators = deployment.coordinators.map { ProcessUsage(of: $0.process.pid) }
        let store = deployment.redis.map { ProcessUsage(of: $0.pid) }
        self.coordinators = coordinators.reduce(0) { $0 + $1.cpu }
        broker = deployment.brokers.reduce(0) { $0 + ProcessUsage(of: $1.pid).cpu }
        self.store = store?.cpu ?? 0
        phones = ProcessUsage(of: getpid()).cpu
        storeRoundTrips = deployment.metric("bellwire_store_round_trips_total")
        coordinatorMemory = coordinators.map(\.memory).max() ?? 0
        storeMemory = store?.memory ?? 0
    }

    /// Returns the resources that were used from `before` to `after`, and the memory of `after`.
    static func - (after: Usage, before: Usage) -> Usage {
        var difference = after
        difference.coordinators -= before.coordinators
        difference.broker -= before.broker
        difference.store -= before.store
        difference.phones -= before.phones
        difference.storeRoundTrips -= before.storeRoundTrips
        return difference
    }

    static func + (first: Usage, next: Usage) -> Usage {
        var sum = next
        sum.coordinators += first.coordinators
        sum.broker += first.broker
        sum.store += first.store
        sum.phones += first.phones
        sum.storeRoundTrips += first.storeRoundTrips
        sum.coordinatorMemory = max(first.coordinatorMemory, next.coordinatorMemory)
        return sum
    }
}

private func contents(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = read(descriptor, &buffer, buffer.count)
    return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
}
