package org.bellwire;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bellwire.transport.Connection;
import org.bellwire.transport.ConnectionHandlers;
import org.bellwire.transport.ConnectionSettings;
import org.bellwire.transport.Transport;
import org.junit.After;
import org.junit.Test;

/** An app in Java, against a service that answers every request of a call with bob. */
public class JavaTest {
    private final Service service = new Service();
    private final ExecutorService executor = Executors.newSingleThreadExecutor(task -> new Thread(task, "app"));
    private final BlockingQueue<String> told = new LinkedBlockingQueue<>();
    private final List<String> lines = new CopyOnWriteArrayList<>();

    @After
    public void end() {
        executor.shutdown();
    }

    private BellwireAsync alice() throws BellwireException {
        return new BellwireAsync.Builder("mqtt://a", "alice").device("phone").token(() -> "token").transport(service)
            .executor(executor).clock(() -> 7).log((level, text, failure) -> lines.add(level + " " + text)).build();
    }

    private static <T> T result(CompletableFuture<T> future) throws Exception {
        return future.get(10, TimeUnit.SECONDS);
    }

    private void expect(String text) throws InterruptedException {
        assertEquals(text, told.poll(10, TimeUnit.SECONDS));
    }

    @Test
    public void anAppInJavaCallsIsToldAndHangsUp() throws Exception {
        BellwireAsync alice = alice();
        result(alice.connect());
        assertEquals("token", service.settings.getPassword());
        Call call = result(alice.call(Collections.singletonList("bob"), new CallOptions("video")));
        assertEquals("video", call.getMedia());
        assertEquals("the app's clock counts", 0, call.getElapsed());
        alice.onChange(
            call,
            change -> {
                String thread = Thread.currentThread().getName();
                told.add(change.getUserID() + " is " + change.getState() + " in " + thread);
            },
            reason -> told.add("ended: " + reason));
        expect("bob is ACCEPTED in app");
        result(alice.signal(call, "{\"sdp\":\"x\"}"));
        result(alice.hangUp(call));
        expect("alice is QUIT in app");
        expect("ended: hangup");
        result(alice.disconnect());
        assertEquals(ConnectionState.DISCONNECTED, alice.getClient().getState().getValue());
        assertTrue(lines.toString(), lines.contains("INFO the service knows the device"));
    }

    @Test
    public void aListenerThatThrowsHearsTheNextEventAndOneThatIsClosedHearsNone() throws Exception {
        BellwireAsync alice = alice();
        result(alice.connect());
        BellwireAsync.Listening first = alice.onMessage(message -> {
            told.add(message.getFrom() + ": " + message.getData());
            throw new IllegalStateException("a fault of the app");
        });
        service.message("m1", "{\"n\":1}");
        expect("bob: {\"n\":1}");
        service.message("m2", "[2]");
        expect("bob: [2]");
        first.close();
        alice.onMessage(message -> told.add("second: " + message.getData()));
        service.message("m3", "3");
        expect("second: 3");
        assertTrue(lines.toString(), lines.contains("WARNING a listener has thrown"));
        result(alice.disconnect());
    }

    @Test
    public void aRefusalIsTheCauseOfTheFuturesFailure() throws Exception {
        BellwireAsync alice = alice();
        assertEquals("notConnected", refusal(alice.users(Arrays.asList("bob"))));
        result(alice.connect());
        assertEquals("callNotFound", refusal(alice.join("none")));
        assertEquals("badRequest", refusal(alice.send("bob", "no JSON")));
        result(alice.disconnect());
        try {
            new BellwireAsync.Builder("http://a", "alice").build();
            fail("no such scheme");
        } catch (BellwireException exception) {
            assertEquals("badRequest", exception.getCode());
        }
    }

    private static String refusal(CompletableFuture<?> future) throws Exception {
        try {
            result(future);
            return null;
        } catch (ExecutionException exception) {
            return ((BellwireException) exception.getCause()).getCode();
        }
    }

    /** A transport and a service in one. */
    private static final class Service implements Transport {
        private volatile ConnectionSettings settings;
        private volatile ConnectionHandlers handlers;

        @Override
        public Connection connect(ConnectionSettings settings, ConnectionHandlers handlers) {
            this.settings = settings;
            this.handlers = handlers;
            handlers.accepted();
            handlers.subscribed();
            return new Connection() {
                @Override
                public int getBacklog() {
                    return 0;
                }

                @Override
                public boolean publish(String topic, String payload, Integer expiry) {
                    answer(payload);
                    return true;
                }

                @Override
                public void ask() {}

                @Override
                public void close() {}
            };
        }

        private static String field(String payload, String name) {
            Matcher matcher = Pattern.compile("\"" + name + "\":\"?([^\",}]*)").matcher(payload);
            return matcher.find() ? matcher.group(1) : "";
        }

        private void answer(String payload) {
            String type = field(payload, "type");
            String callID = field(payload, "callID");
            if (field(payload, "online").equals("true")) {
                handlers.message("{\"type\":\"welcome\",\"session\":\"" + field(payload, "session")
                    + "\",\"serverTime\":0,\"heartbeatInterval\":20,\"calls\":[]}");
            } else if (type.equals("call.invite")) {
                String call = call(callID, 1, "ringing", "accepted", "inviting");
                respond(payload, "\"ok\":true,\"time\":1,\"call\":" + call);
                event(callID, 2, "call.userStateChanged", call(callID, 2, "active", "accepted", "accepted"));
            } else if (type.equals("call.end")) {
                respond(payload, "\"ok\":true,\"time\":3,\"call\":" + call(callID, 3, "ended", "quit", "accepted"));
            } else if (type.startsWith("call.") && !type.equals("call.signal")) {
                respond(payload, "\"ok\":false,\"error\":{\"code\":\"callNotFound\",\"message\":\"\"}");
            }
        }

        private void respond(String request, String rest) {
            handlers.message("{\"type\":\"response\",\"id\":\"" + field(request, "id") + "\"," + rest + "}");
        }

        private void event(String callID, int revision, String name, String call) {
            handlers.message("{\"type\":\"event\",\"event\":\"" + name + "\",\"revision\":" + revision
                + ",\"time\":1,\"callID\":\"" + callID + "\",\"changes\":[],\"call\":" + call + "}");
        }

        private void message(String id, String data) {
            handlers.message("{\"type\":\"message\",\"messageID\":\"" + id
                + "\",\"from\":\"bob\",\"fromDevice\":\"d\",\"time\":1,\"data\":" + data + "}");
        }

        private static String call(String callID, int revision, String state, String alice, String bob) {
            return "{\"callID\":\"" + callID + "\",\"revision\":" + revision + ",\"mode\":\"advanced\",\"state\":\""
                + state + "\",\"inviter\":\"alice\",\"createdAt\":1,\"timeout\":60,\"media\":\"video\",\"endReason\":"
                + (state.equals("ended") ? "\"hangup\"" : "null")
                + ",\"members\":[{\"userID\":\"alice\",\"state\":\"" + alice
                + "\",\"device\":\"phone\",\"updatedAt\":1},{\"userID\":\"bob\",\"state\":\"" + bob
                + "\",\"updatedAt\":1}]}";
        }
    }
}
