package org.bellwire;

import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Two phones of an app in Java, at a service of its own: `JavaPhones URL CALLER CALLED` makes a call and ends. */
public final class JavaPhones {
    private JavaPhones() {}

    private static <T> T result(CompletableFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    public static void main(String[] words) throws Exception {
        BellwireAsync caller = new BellwireAsync.Builder(words[0], words[1]).build();
        BellwireAsync called = new BellwireAsync.Builder(words[0], words[2]).build();
        CompletableFuture<CallSignal> signal = new CompletableFuture<>();
        called.onIncomingCall(call -> {
            called.onSignal(call, signal::complete);
            called.accept(call);
        });
        result(caller.connect());
        result(called.connect());
        Call call = result(caller.call(Collections.singletonList(words[2]), new CallOptions("voice")));
        CompletableFuture<CallChange> answer = new CompletableFuture<>();
        CompletableFuture<String> end = new CompletableFuture<>();
        caller.onChange(
            call,
            change -> {
                if (change.getState() == MemberState.ACCEPTED) answer.complete(change);
            },
            end::complete);
        System.out.println("answered by " + result(answer).getUserID());
        result(caller.signal(call, "{\"sdp\":\"x\"}"));
        System.out.println("signal " + result(signal).getData());
        result(caller.hangUp(call));
        System.out.println("ended: " + result(end));
        result(caller.disconnect());
        result(called.disconnect());
        System.exit(0);
    }
}
