import FuzzEntries
import Glibc

/// The fuzzer's side of libFuzzer: `BELLWIRE_FUZZ_ENTRY` names the entry (scripts/fuzz).
private let entry: FuzzEntry = {
    guard let name = getenv("BELLWIRE_FUZZ_ENTRY").map({ String(cString: $0) }), let entry = FuzzEntry(rawValue: name)
    else { fatalError("BELLWIRE_FUZZ_ENTRY names none of \(FuzzEntry.allCases.map(\.rawValue))") }
    return entry
}()

@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    do throws(Finding) {
        try entry.check(Array(UnsafeBufferPointer(start: data, count: size)))
    } catch {
        fatalError("\(entry): \(error)")
    }
    return 0
}

@_silgen_name("LLVMFuzzerMutate")
private func mutate(_ data: UnsafeMutablePointer<UInt8>, _ size: Int, _ maxSize: Int) -> Int

/// Every other change comes from the mutator that knows JSON.
@_cdecl("LLVMFuzzerCustomMutator")
public func customMutator(_ data: UnsafeMutablePointer<UInt8>, _ size: Int, _ maxSize: Int, _ seed: UInt32) -> Int {
    guard seed & 1 == 0 else { return mutate(data, size, maxSize) }
    var mutator = Mutator(seed: UInt64(seed))
    let bytes = mutator.input(from: [Array(UnsafeBufferPointer(start: data, count: size))]).prefix(maxSize)
    for (index, byte) in bytes.enumerated() { data[index] = byte }
    return bytes.count
}
