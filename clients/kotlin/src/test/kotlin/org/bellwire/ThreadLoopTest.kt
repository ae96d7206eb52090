package org.bellwire

import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import org.junit.Assert.assertTrue
import org.junit.Test

class ThreadLoopTest {
    /** A caller waits for a posted task: if the loop dropped the task, that caller would wait forever. */
    @Test
    fun aPostedTaskRunsAlsoWhileTheLoopEnds() {
        repeat(5_000) { round ->
            val loop = ThreadLoop("loop-$round")
            loop.post(loop::end)
            // The second task comes at another moment in each round.
            val start = System.nanoTime() + round % 100 * 1_000
            while (System.nanoTime() < start) Unit
            val hasRun = CountDownLatch(1)
            if (loop.post(hasRun::countDown)) assertTrue("round $round", hasRun.await(10, TimeUnit.SECONDS))
        }
    }
}
