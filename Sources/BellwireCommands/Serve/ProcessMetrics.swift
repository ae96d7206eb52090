import Glibc

/// The metrics that every Prometheus client library has, and the build, in the Prometheus text format.
enum ProcessMetrics {
    static var text: String {
        var text = "# HELP bellwire_build_info The version and the commit of this build.\n"
        text += "# TYPE bellwire_build_info gauge\n"
        text += "bellwire_build_info{version=\"\(bellwireVersion)\",commit=\"\(bellwireCommit)\"} 1\n"
        var usage = rusage()
        if getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            metric("process_cpu_seconds_total", "counter", "User and system time.", usage.ru_utime + usage.ru_stime)
        }
        if let statistics = Statistics() {
            gauge("process_resident_memory_bytes", "Resident memory.", statistics.residentBytes)
            gauge("process_virtual_memory_bytes", "Virtual memory.", statistics.virtualBytes)
            if let boot = bootTime {
                let start = boot + Double(statistics.startTicks) / Double(ticks)
                metric("process_start_time_seconds", "gauge", "When the process started, in Unix time.", start)
            }
        }
        if let open = openDescriptors { gauge("process_open_fds", "Open file descriptors.", open) }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            gauge("process_max_fds", "The most open file descriptors.", Int(clamping: limit.rlim_cur))
        }
        return text

        func gauge(_ name: String, _ help: String, _ value: Int) { metric(name, "gauge", help, value) }
        func metric(_ name: String, _ type: String, _ help: String, _ value: some CustomStringConvertible) {
            text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n\(name) \(value)\n"
        }
    }

    /// The fields of `/proc/self/stat` (proc(5)).
    private struct Statistics {
        let startTicks: Int
        let virtualBytes: Int
        let residentBytes: Int

        init?() {
            // The name of the program, in parentheses, may contain spaces.
            guard let line = contents(of: "/proc/self/stat"), let end = line.lastIndex(of: ")") else { return nil }
            let fields = line[line.index(after: end)...].split(separator: " ").map { Int($0) ?? 0 }
            // Field 3 of the manual page is the first of `fields`.
            guard fields.count > 21 else { return nil }
            (startTicks, virtualBytes) = (fields[19], fields[20])
            residentBytes = fields[21] * sysconf(Int32(_SC_PAGESIZE))
        }
    }

    private static var ticks: Int { sysconf(Int32(_SC_CLK_TCK)) }

    /// The time at which the machine was started, in Unix time.
    private static var bootTime: Double? {
        contents(of: "/proc/stat")?.split(separator: "\n").first { $0.hasPrefix("btime ") }
            .flatMap { Double($0.dropFirst("btime ".count)) }
    }

    private static var openDescriptors: Int? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Without `.`, `..` and the descriptor of the directory itself.
        return count - 3
    }

    private static func contents(of path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}

/// The seconds of two times together.
private func + (first: timeval, second: timeval) -> Double {
    Double(first.tv_sec + second.tv_sec) + Double(first.tv_usec + second.tv_usec) / 1_000_000
}
