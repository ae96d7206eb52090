import CallCore
import CallStore
import Coordinator

/// A world of two coordinators on a shared store, which lets the second coordinator act between the gathering and the
/// commit of the first.
struct Race {
    let world: World
    let store: FaultyStore
    let alice: Phone
    let bob: Phone

    init(_ settings: ServiceSettings = .init()) {
        var faulty: FaultyStore!
        world = World(
            coordinators: 2, settings,
            store: { memory in
                faulty = FaultyStore(memory)
                return faulty
            })
        store = faulty
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
    }

    /// From now on all messages go to the first coordinator; before its `commit`th commit the second coordinator serves
    /// `message`.
    func intrude(beforeCommit commit: Int = 1, _ message: InboundMessage) {
        world.route = { _ in 0 }
        let before = store.commits
        store.beforeCommit = { [world, store] count in
            guard count == before + commit else { return }
            store.beforeCommit = nil
            world.send([message], to: 1)
        }
    }

    /// Another coordinator writes the call again without a change, and dies before any further work.
    func rewrite() {
        let stored = world.memory.load([RecordID.call(callID)])[0]!
        _ = world.memory.commit([
            Commit(.call(callID), record: stored.record, expected: stored.version, deadline: nil, expiresAt: nil)
        ])
    }
}
