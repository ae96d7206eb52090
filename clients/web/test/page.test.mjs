// The fixed texts of the call page.
import assert from "node:assert/strict";
import test from "node:test";
import { callText, endText, memberText } from "../dist/modules/page/words.js";
import { leaveFor } from "../dist/modules/page/second.js";
import { isComplete, storyOf, summaryOf } from "../dist/modules/page/story.js";

const call = (members, fields = {}) => ({
  callID: "c", revision: 1, mode: "advanced", state: "ringing", inviter: "alice", createdAt: 0, timeout: 60,
  members: Object.entries({ alice: "accepted", ...members }).map(([userID, state]) => {
    const [is, reason] = state.split(" ");
    return { userID, state: is, updatedAt: 0, ...(reason ? { reason } : {}) };
  }),
  ...fields,
});

test("the status of a call that lives", () => {
  for (const [members, text] of [
    [{ bob: "inviting" }, "Calling bob"],
    [{ bob: "inviting", carol: "inviting" }, "Calling bob, carol"],
    [{ bob: "received", carol: "inviting" }, "Ringing bob"],
    [{ bob: "received", carol: "received" }, "Ringing bob, carol"],
    [{ bob: "notYetReceived" }, "bob has not received the call yet"],
    [{ bob: "notYetReceived", carol: "received" }, "Ringing carol"],
    [{ bob: "rejected", carol: "inviting" }, "Calling carol"],
    [{ bob: "accepted", carol: "received" }, "In a call with bob"],
    [{ bob: "accepted", carol: "accepted" }, "In a call with bob, carol"],
    [{ bob: "quit", carol: "accepted" }, "In a call with carol"],
  ]) assert.equal(callText(call(members), "alice"), text);
  assert.equal(callText(call({ bob: "received" }), "bob"), undefined, "the dialog shows the call");
  assert.equal(callText(call({ bob: "accepted" }), "bob"), "In a call with alice");
});

test("the status after a call", () => {
  const ended = (members, endReason, fields = {}) => call(members, { state: "ended", endReason, ...fields });
  const ends = [
    ["alice", ended({ bob: "rejected declined" }, "rejected"), "rejected", false, "bob declined"],
    ["alice", ended({ bob: "rejected busy" }, "busy"), "busy", false, "bob is busy"],
    ["alice", ended({ bob: "rejected busy", carol: "rejected no" }, "busy"), "busy", false, "carol declined"],
    ["alice", ended({ bob: "timeout" }, "timeout"), "timeout", false, "No answer"],
    ["alice", ended({ bob: "cancelled" }, "cancelled"), "cancelled", false, "Call ended"],
    ["alice", ended({ bob: "accepted" }, "hangup", { acceptedAt: 1 }), "hangup", false, "Call ended"],
    ["alice", ended({ bob: "rejected declined", carol: "quit" }, "rejected", { acceptedAt: 1 }), "rejected", false, "Call ended"],
    ["bob", ended({ bob: "cancelled" }, "cancelled"), "cancelled", true, "Missed call from alice"],
    ["bob", ended({ bob: "timeout" }, "timeout"), "gone", false, "Missed call from alice"],
    ["bob", ended({ bob: "rejected declined" }, "rejected"), "rejected", false, "Call ended"],
    ["bob", call({ bob: "accepted" }), "answeredElsewhere", false, "Answered on another device"],
    ["bob", ended({ bob: "accepted" }, "hangup", { acceptedAt: 1 }), "hangup", false, "Call ended"],
  ];
  for (const [user, of, reason, isMissed, text] of ends) assert.equal(endText(of, user, reason, isMissed), text);
  const added = call({ bob: "accepted", carol: "cancelled" });
  added.members[2].invitedBy = "bob";
  assert.equal(endText(added, "carol", "cancelled", true), "Missed call from bob", "the caller of a user may be another member than the inviter");
});

test("each state of a member has words", () => {
  for (const state of ["inviting", "notYetReceived", "received", "accepted", "rejected", "cancelled", "timeout", "quit"]) {
    assert.ok(memberText({ userID: "bob", state, updatedAt: 0 }));
  }
});

test("a timeline of anything is a story of bounded text", () => {
  const entry = (fields) => ({ time: 0, at: 5, after: 0, coordinator: "one", ...fields });
  const junk = ["x".repeat(5000), 7, null, [1], { toString: "no" }, "__proto__", "constructor"];
  const entries = junk.flatMap((value) => ["request", "transition", "send", "resend", "ack", "presence", "deadline", "push", "media", "__proto__"].map((kind) =>
    entry({ kind, userID: value, device: value, type: value, event: value, outcome: value, state: value, reason: value,
      changes: [value, { userID: value, state: value }], online: value, late: value, revision: value })));
  const trace = { call: call({ bob: "received" }), entries, omitted: 0, reports: [{ userID: "bob", device: "d", milestones: { ["m".repeat(900)]: 1, n: NaN } }] };
  for (const { who, what } of storyOf(trace)) {
    assert.equal(typeof who, "string");
    assert.ok(what.length < 700 && who.length < 200, what);
  }
  assert.ok(storyOf({ ...trace, entries: Array(5000).fill(entry({ kind: "ack" })) }).length <= 300);
  assert.ok(summaryOf(trace).every((line) => line.length < 700));
  assert.ok(isComplete(trace));
  assert.ok(!isComplete({ ...trace, entries: [], call: call({}, { state: "ended" }) }), "the entry is written a little later");
});

test("an invitation that was lost is trouble, an answer to a device that asked is not", () => {
  const at = (time, kind, fields) => ({ time, at: time, after: 0, coordinator: "one", kind, userID: "bob", event: "call.invited", revision: 1, online: 1, ...fields });
  const troubles = (...entries) => storyOf({ entries, reports: [] }).map(({ isTrouble }) => isTrouble);
  assert.deepEqual(troubles(at(0, "send"), at(2, "resend"), at(1002, "resend")), [false, false, true]);
  assert.deepEqual(troubles(at(2, "resend")), [false], "the answer to a stale ack");
  assert.deepEqual(troubles(at(0, "send", { online: 0 })), [true]);
  assert.deepEqual(troubles(at(0, "request", { type: "call.accept", outcome: "callEnded" })), [true]);
});

test("the summary says why an invitation rang no device", () => {
  const at = (time, kind, userID, fields = {}) => ({ time, at: time, after: 0, coordinator: "one", kind, userID, revision: 1, ...fields });
  const invited = { event: "call.invited" };
  const entries = [
    at(0, "send", "bob", { ...invited, online: 2 }), at(0, "send", "carol", { ...invited, online: 0 }), at(0, "send", "dave", { ...invited, online: 1 }),
    at(5, "ack", "dave"), at(1000, "resend", "bob", { ...invited, online: 2 }), at(1000, "resend", "dave", { ...invited, online: 1 }),
    at(1500, "send", "erin", { ...invited, online: 0 }),
    at(2000, "transition", undefined, { state: "ended", changes: [{ userID: "bob", state: "timeout" }, { userID: "dave", state: "received" }] }),
    at(2500, "transition", undefined, { state: "ringing", changes: [{ userID: "erin", state: "received" }] }),
  ];
  const trace = { call: call({ bob: "timeout", carol: "inviting", dave: "received" }), entries, omitted: 0 };
  assert.ok(!summaryOf({ ...trace, omitted: 1 }).some((line) => /online/.test(line)), "a dropped entry may have been an ack");
  assert.deepEqual(summaryOf(trace), [
    "bob: no answer after 2.000 s, 2 devices were online, sent 2 times, no ack", "dave: rang after 2.000 s", "erin: rang after 2.500 s", "carol: no device was online",
  ]);
});

test("the text of an event names the members that have changed", () => {
  const entry = (kind, fields) => ({ time: 0, at: 0, after: 0, coordinator: "one", kind, revision: 2, ...fields });
  const event = { userID: "alice", event: "call.userStateChanged", online: 1 };
  const changes = ["alice", "bob", "carol"].map((userID) => ({ userID, state: "accepted" }));
  const [, told, unknown] = storyOf({ entries: [entry("transition", { changes }), entry("send", event), entry("send", { ...event, revision: 9 })], reports: [] });
  assert.equal(told.what, "was told that bob is in the call and carol is in the call");
  assert.equal(unknown.what, "was told the new state of a member");
});

test("a second call that is over by the time it is accepted ends nothing", async () => {
  const ringing = { ...call({ bob: "inviting" }), callID: "second" };
  const left = async (second, answer) => {
    let count = 0;
    const client = { user: "bob", get: async (callID) => {
      assert.equal(callID, "second");
      return answer(second);
    } };
    const goesOn = await leaveFor(second, client, () => (count += 1)).catch(({ code }) => code);
    return [goesOn, count];
  };
  const rings = () => ({ id: "second", snapshot: ringing, endReason: undefined });
  assert.deepEqual(await left(rings(), () => ringing), [true, 1]);
  assert.deepEqual(await left(rings(), () => ({ ...ringing, ...call({ bob: "received", carol: "accepted" }, { state: "active" }) })), [true, 1]);
  for (const [why, over] of Object.entries({
    cancelled: call({ bob: "cancelled" }, { state: "ended", endReason: "cancelled" }),
    "this user alone was cancelled": call({ bob: "cancelled", carol: "received" }),
    "declined elsewhere": call({ bob: "rejected declined" }, { state: "ended", endReason: "rejected" }),
    "accepted elsewhere": call({ bob: "accepted" }, { state: "active" }),
    "timed out": call({ bob: "timeout", carol: "accepted" }, { state: "active" }),
    "ended while it rang": call({ bob: "received" }, { state: "ended", endReason: "hangup" }),
    "no member": call({}),
  })) assert.deepEqual(await left(rings(), () => over), [false, 0], why);
  assert.deepEqual(await left({ ...rings(), endReason: "cancelled" }, () => assert.fail("known already")), [false, 0]);
  assert.deepEqual(await left(rings(), (second) => {
    second.endReason = "cancelled";
    return ringing;
  }), [false, 0], "told while the service was asked");
  const refused = () => { throw Object.assign(new Error(), { code: "noResponse" }); };
  assert.deepEqual(await left(rings(), refused), ["noResponse", 0]);
});
