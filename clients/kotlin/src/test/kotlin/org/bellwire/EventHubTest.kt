package org.bellwire

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.Job
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import org.junit.Assert.assertEquals
import org.junit.Test

@OptIn(ExperimentalCoroutinesApi::class)
class EventHubTest {
    private val scope = CoroutineScope(Dispatchers.Unconfined)

    @Test
    fun theFirstCollectorGetsWhatCameBefore() = runBlocking {
        val hub = EventHub<Int>()
        (1..3).forEach(hub::tell)
        val second = mutableListOf<Int>()
        val first = mutableListOf<Int>()
        scope.launch(start = CoroutineStart.UNDISPATCHED) { hub.elements.collect { first += it } }
        scope.launch(start = CoroutineStart.UNDISPATCHED) { hub.elements.collect { second += it } }
        hub.tell(4)
        hub.finish()
        hub.tell(5)
        assertEquals(listOf(1, 2, 3, 4), first)
        assertEquals(listOf(4), second)
        assertEquals("after the end", emptyList<Int>(), hub.elements.toList())
    }

    @Test
    fun whatNobodyCollectsIsBounded() = runBlocking {
        val hub = EventHub<Int>()
        (1..5_000).forEach(hub::tell)
        hub.withdraw { it == 5_000 }
        hub.finish()
        assertEquals((3_977..4_999).toList(), hub.elements.toList())
    }

    @Test
    fun whatACollectorLeavesBehindIsForTheNext() = runBlocking {
        val hub = EventHub<Int>()
        (1..3).forEach(hub::tell)
        assertEquals(1, hub.elements.first())
        hub.tell(4)
        assertEquals(listOf(2, 3), hub.elements.take(2).toList())
        hub.withdraw { it == 4 }
        hub.tell(5)
        hub.finish()
        assertEquals(listOf(5), hub.elements.toList())
    }

    @Test
    fun aCollectorThatIsCancelledTakesNothingMore() = runBlocking {
        val hub = EventHub<Int>()
        (1..3).forEach(hub::tell)
        val taken = mutableListOf<Int>()
        val job = Job()
        scope.launch(job, start = CoroutineStart.UNDISPATCHED) {
            hub.elements.collect {
                taken += it
                job.cancel()
            }
        }
        hub.finish()
        assertEquals(listOf(1), taken)
        assertEquals(listOf(2, 3), hub.elements.toList())
    }

    @Test
    fun theCharactersThatWaitAreBoundedToo() = runBlocking {
        val hub = EventHub<String> { it.length }
        repeat(1_000) { hub.tell("$it".padEnd(32_768)) }
        hub.finish()
        assertEquals((968..999).toList(), hub.elements.toList().map { it.trim().toInt() })
    }

    @Test
    fun aCollectorThatIsSlowLosesTheOldest() = runBlocking {
        val hub = EventHub<Int>()
        val slow = scope.launch(start = CoroutineStart.UNDISPATCHED) { hub.elements.collect { awaitCancellation() } }
        (1..5_000).forEach(hub::tell)
        // The elements that the collector has left behind are bounded, and go to the next collector.
        slow.cancel()
        hub.tell(5_001)
        hub.finish()
        assertEquals((3_978..5_001).toList(), hub.elements.toList())
    }
}
