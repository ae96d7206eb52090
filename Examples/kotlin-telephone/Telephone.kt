// A telephone in the terminal: `TelephoneKt ME` waits for calls, `TelephoneKt ME WHOM` calls. Enter answers, and hangs up.
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlin.system.exitProcess
import org.bellwire.*

fun main(names: Array<String>) = runBlocking<Unit> {
    val me = names.firstOrNull() ?: error("usage: TelephoneKt ME [WHOM]")
    val broker = System.getenv("BROKER") ?: "mqtt://127.0.0.1:1883"
    val client = BellwireClient(BellwireClient.Configuration(url = broker, user = me))
    client.connect()
    println("$me is online")

    val call = if (names.size > 1) client.call(listOf(names[1]), CallOptions(media = "voice")) else client.incomingCalls.first()
    if (call.isIncoming) println("${call.inviter} calls")

    launch(Dispatchers.IO) {
        while (readLine() != null) {
            try {
                if (call.isIncoming && !call.isHere) call.accept() else call.hangUp()
            } catch (failure: BellwireException) {
                println(failure.message)
            }
        }
    }
    // Here an app shows who rings, and sets its media up once both are in the call.
    call.changes.collect { change ->
        println("${change.userID}: ${change.state.name.lowercase()}")
        if (change.state == MemberState.ACCEPTED && call.isHere) println("connected")
    }
    println("ended: ${call.endReason}")
    client.disconnect()
    exitProcess(0) // the thread that reads the terminal does not end by itself
}
