// The admin page: every view asks /v1/admin of its own gateway, with the token that the administrator has typed.
// All texts may come from users who mean harm, so they are set as text, never as markup, each isolated from the
// direction of its neighbors.

/** The bound of the rows of a table; beyond it, the command line is the tool. */
const MOST_ROWS = 1000;
/** The number of entries that are asked for at a time. */
const PAGE = 50;
/** The cursor that marks the last page. */
const LAST = "0";

/** The token lives in this variable alone, so that it ends with the page. */
let token = "";
/** Ends the requests of the view that is shown; a view that was left draws nothing more. */
let shown = new AbortController();

const byID = (id) => document.getElementById(id);

// ---- Elements

/** Makes an element. Strings among the children become text. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** A text as it can be shown: without characters that reorder or separate others, and at most `limit` characters long. */
function plain(text, limit = 200) {
  const clean = String(text).replace(/[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu, "\ufffd");
  const characters = [...clean.slice(0, 2 * limit)];
  return characters.length > limit || clean.length > 2 * limit ? `${characters.slice(0, limit - 1).join("")}…` : clean;
}

/** A text of a user. */
const foreign = (text, limit) => make("bdi", {}, plain(text ?? "", limit));

/** Moments are shown as in logs, in UTC. */
function moment(time) {
  if (typeof time !== "number") return "";
  const text = new Date(time).toISOString();
  return make("time", { datetime: text }, text.replace("T", " ").replace("Z", " UTC"));
}

const place = (...levels) => `#${levels.map(encodeURIComponent).join("/")}`;
const userLink = (user) => (user ? make("a", { href: place("user", user) }, foreign(user)) : "");
const callLink = (call) => (call ? make("a", { href: place("call", call) }, foreign(call)) : "");

function table(name, columns) {
  const body = make("tbody");
  const head = make("tr", {}, ...columns.map((column) => make("th", { scope: "col" }, column)));
  const box = make("table", { "aria-label": name }, make("thead", {}, head), body);
  // A wide table scrolls by itself, also with the keyboard.
  const element = make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": name }, box);
  const add = (...cells) => body.append(make("tr", {}, ...cells.map((cell) => make("td", {}, ...[cell].flat()))));
  return { element, add, get count() { return body.rows.length; } };
}

/** A list that grows by pages. `load` returns the entries behind a cursor and the next cursor; `row` the cells. */
async function list(name, columns, load, row) {
  const rows = table(name, columns);
  const count = make("p", { class: "hint" });
  const more = make("button", { type: "button", click: () => attempt(next, more) }, "More");
  let cursor = LAST;
  async function next() {
    const page = await load(cursor);
    for (const entry of page.entries.slice(0, MOST_ROWS - rows.count)) rows.add(...row(entry));
    cursor = page.cursor;
    const isFull = rows.count >= MOST_ROWS;
    more.hidden = cursor === LAST || isFull;
    rows.element.hidden = rows.count === 0;
    count.textContent = cursor === LAST ? `${rows.count} in all` : isFull ? `the first ${rows.count}` : `${rows.count}, and more`;
  }
  await next();
  return make("section", { "aria-label": name }, make("h3", {}, name), count, rows.element, more);
}

/** A field with a button that leads to another view. */
function finder(view, label) {
  const input = make("input", { id: "wanted", autocomplete: "off", spellcheck: "false", required: "", maxlength: "64" });
  const go = (event) => {
    event.preventDefault();
    location.hash = place(view, input.value);
  };
  return make("form", { submit: go }, make("label", { for: "wanted" }, label), make("p", { class: "row" },
    input, make("button", { type: "submit", class: "primary" }, "Show")));
}

// ---- Requests

/** A refusal of the gateway, or a lack of an answer. */
class Refusal extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** Asks for a path below /v1/admin. `levels` are encoded each; `query` and `body` may be left out. */
async function ask(method, levels, { query = {}, body, signal = shown.signal } = {}) {
  // Browsers resolve such levels, encoded or not, so that another path would be asked for.
  if (levels.some((level) => level === "." || level === "..")) {
    throw new Refusal("a browser cannot ask for this id; the command bellwire admin can");
  }
  const url = new URL(`../v1/admin/${levels.map(encodeURIComponent).join("/")}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const headers = { Authorization: `Bearer ${token}` };
  if (body) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, {
      method, headers, body: body && JSON.stringify(body), signal, credentials: "omit", cache: "no-store", redirect: "error",
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Refusal("the gateway does not answer");
  }
  const text = await answer.text();
  let json = {};
  try {
    json = text ? JSON.parse(text) : {};
  } catch {
    throw new Refusal(`the gateway answers with status ${answer.status}, and not in JSON`, answer.status);
  }
  if (answer.ok) return json;
  throw new Refusal(json.code ? `${json.detail} (${json.code})` : `the gateway answers with status ${answer.status}`, answer.status);
}

const page = (cursor, more = {}) => ({ count: PAGE, cursor, ...more });

// ---- What is said

function say(...parts) {
  byID("problem").hidden = true;
  byID("status").replaceChildren(...parts);
}

function complain(text) {
  byID("status").replaceChildren();
  byID("problem").replaceChildren(foreign(text, 500));
  byID("problem").hidden = false;
}

/** Why the gateway does not take a token. */
function reasonAgainstToken(refusal) {
  if (refusal.status === 401) return `The gateway does not accept this token: ${refusal.message}`;
  if (refusal.status === 403) return `This is no administrator's token: ${refusal.message}`;
  if (refusal.status === 404) return "At this address the gateway does not serve /v1/admin.";
  return refusal.message;
}

/** Runs a task of a button, which is idle meanwhile. A token that has ended leads back to the start. */
async function attempt(task, button) {
  if (button) button.disabled = true;
  try {
    await task();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refusal)) console.error(error);
    if (error.status === 401 || error.status === 403) leave();
    complain(error.status === 401 || error.status === 403 ? reasonAgainstToken(error) : error.message);
  } finally {
    if (button) button.disabled = false;
  }
}

/** Asks whether an act is meant. `question` may have elements. */
function isMeant(verb, ...question) {
  const dialog = byID("confirm");
  byID("question").replaceChildren(...question);
  byID("yes").textContent = verb;
  dialog.returnValue = "no";
  dialog.showModal();
  byID("no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** A button for an act: asks once, acts, and shows the view anew. `done` is what is said then. */
function actButton(verb, question, act, done, kind = "danger") {
  const button = make("button", { type: "button", class: kind, click: () => attempt(async () => {
    if (!(await isMeant(verb, ...[question].flat()))) return;
    // An act is not broken off when the administrator goes to another view meanwhile.
    const answer = await act({ signal: null });
    say(...[done(answer)].flat());
    await show();
  }, button) }, verb);
  return button;
}

// ---- Views

const views = {
  async online() {
    const load = async (cursor) => {
      const { devices, cursor: next } = await ask("GET", ["online"], { query: page(cursor) });
      return { entries: devices, cursor: next };
    };
    const row = ({ userID, device, since, broker }) => [userLink(userID), foreign(device), moment(since), foreign(broker)];
    return [
      make("h2", {}, "Online"),
      await list("Devices", ["User", "Device", "Since", "Broker"], load, row),
    ];
  },

  async live() {
    const load = async (cursor) => {
      const { calls, cursor: next } = await ask("GET", ["calls"], { query: page(cursor) });
      return { entries: calls, cursor: next };
    };
    const row = ({ callID, state, inviter, members, createdAt }) => [
      callLink(callID), state, userLink(inviter), usersBut(inviter, members), moment(createdAt),
    ];
    return [make("h2", {}, "Live calls"), await list("Calls", ["Call", "State", "Caller", "Members", "Created"], load, row)];
  },

  async user(user) {
    if (!user) return [make("h2", {}, "User"), finder("user", "User id")];
    const { devices, disabled } = await ask("GET", ["users", user, "devices"]);
    const name = () => foreign(user);
    const rows = table("Devices", ["Device", "Online", "Since", "Pushes", "Act"]);
    for (const { device, online, since, push } of devices) {
      rows.add(
        foreign(device), online ? "yes" : "no", moment(since),
        push.map(({ platform, app }) => foreign(`${platform} (${app}) `)),
        actButton("Sign out", ["Sign out the device ", foreign(device), " of ", name(), "?"],
          (options) => ask("POST", ["users", user, "sign-out"], { body: { device }, ...options }),
          () => ["The device ", foreign(device), " is signed out."]));
    }
    rows.element.hidden = devices.length === 0;
    const load = async (cursor) => {
      const { calls, cursor: next } = await ask("GET", ["users", user, "calls"], { query: page(cursor) });
      return { entries: calls, cursor: next };
    };
    const everywhere = actButton("Sign out everywhere", ["Sign out all devices of ", name(), "?"],
      (options) => ask("POST", ["users", user, "sign-out"], options), () => [name(), " is signed out."]);
    const toggle = disabled
      ? actButton("Enable", ["Serve ", name(), " again?"],
        (options) => ask("POST", ["users", user, "enable"], options), () => [name(), " is enabled."], "primary")
      : actButton("Disable", ["Sign out ", name(), " everywhere, and refuse the user until enabled again?"],
        (options) => ask("POST", ["users", user, "disable"], options), () => [name(), " is disabled."]);
    return [
      make("h2", {}, "User ", name()),
      make("p", {}, disabled ? "An administrator has disabled this user." : "This user is not disabled."),
      make("p", { class: "row" }, everywhere, toggle),
      make("h3", {}, "Devices"), make("p", { class: "hint" }, `${devices.length} in all`), rows.element,
      await list("Calls", ["Call", "State", "Caller", "Members", "Created", "Ended"], load, callCells),
    ];
  },

  async call(id) {
    if (!id) return [make("h2", {}, "Call"), finder("call", "Call id")];
    const { call, entries, omitted } = await ask("GET", ["calls", id]);
    const facts = make("dl");
    const fact = (name, ...value) => facts.append(make("dt", {}, name), make("dd", {}, ...value));
    fact("State", call.endReason ? `${call.state}: ${call.endReason}` : call.state);
    fact("Mode", call.mode);
    if (call.media) fact("Media", foreign(call.media));
    fact("Caller", userLink(call.inviter));
    fact("Created", moment(call.createdAt));
    if (call.acceptedAt) fact("Accepted", moment(call.acceptedAt));
    if (call.endedAt) fact("Ended", moment(call.endedAt), call.endedBy ? " by " : "", userLink(call.endedBy));
    if (call.extendedData) fact("Data", foreign(call.extendedData));
    const members = table("Members", ["User", "Name", "State", "Device", "Reason", "Data"]);
    for (const { userID, name, state, device, reason, extendedData } of call.members) {
      members.add(userLink(userID), foreign(name), state, foreign(device), foreign(reason), foreign(extendedData));
    }
    const timeline = table("Timeline", ["After the start", "Entry", "User", "Details"]);
    for (const entry of entries) {
      timeline.add(`${entry.at} ms`, entry.kind, userLink(entry.userID ?? entry.actor), foreign(details(entry), 500));
    }
    return [
      make("h2", {}, "Call ", foreign(call.callID)), facts,
      ...(call.state === "ended" ? [] : [endForm(call)]),
      make("h3", {}, "Members"), members.element,
      make("h3", {}, "Pushes by outcome"), pushes(entries),
      make("h3", {}, "Timeline"),
      ...(omitted ? [make("p", { class: "hint" }, `${omitted} older entries are not kept.`)] : []),
      timeline.element,
    ];
  },

  async webhooks(name) {
    const { endpoints, omitted } = await ask("GET", ["webhooks"]);
    if (name) return endpointView(name, endpoints.find((endpoint) => endpoint.name === name));
    const columns = ["Endpoint", "State", "Waiting", "The oldest", "Dead letters", "Bytes", "Last attempt", "Events"];
    const rows = table("Endpoints", columns);
    for (const { name, turnedOff, waiting, oldest, dead, bytes, lastAttempt, events } of endpoints) {
      rows.add(
        make("a", { href: place("webhooks", name) }, foreign(name)), turnedOff ? "off (it answered 410)" : "on",
        String(waiting), moment(oldest), String(dead), String(bytes), foreign(lastAttempt), foreign(events.join(" ")));
    }
    rows.element.hidden = endpoints.length === 0;
    const count = omitted ? `${endpoints.length}, and ${omitted} more` : `${endpoints.length} in all`;
    return [make("h2", {}, "Webhooks"), make("p", { class: "hint" }, count), rows.element];
  },

  async audit() {
    const load = (cursor) => ask("GET", ["audit"], { query: page(cursor) });
    const row = (entry) => {
      const { time, actor, act, userID, callID } = entry;
      const more = Object.entries(entry).filter(([name]) => !["time", "id", "actor", "act", "userID", "callID"].includes(name));
      return [moment(time), foreign(actor), act, [userLink(userID), callLink(callID)], foreign(more.map((each) => each.join(": ")).join(", "))];
    };
    return [make("h2", {}, "Audit log"), await list("Acts", ["Time", "Administrator", "Act", "Of", "Details"], load, row)];
  },

  async log() {
    const choice = make("select", { id: "level" }, ...["debug", "info", "warning", "error"].map((level) => make("option", {}, level)));
    choice.value = "info";
    const set = actButton("Set the level", "Set the level of the logs of all coordinators and gateways?",
      (options) => ask("PUT", ["log-level"], { body: { level: choice.value }, ...options }),
      () => "All processes log at this level within 5 s.", "primary");
    return [
      make("h2", {}, "Log level"),
      make("p", { class: "hint" }, "For all coordinators and gateways, until they restart. “debug” has a line for each response."),
      make("label", { for: "level" }, "Level"), make("p", { class: "row" }, choice, set),
    ];
  },
};

/** An endpoint with its dead letters. The endpoint may have left the list. */
async function endpointView(name, endpoint) {
  const replayed = ({ replayed, more, turnedOff }) => [
    `${replayed} to be sent again.`, more ? " There are more: send again." : "",
    turnedOff ? " The endpoint is off, so they become dead letters again; turn it on by bellwire webhooks on." : "",
  ];
  const replay = (verb, question, body) => actButton(verb, question,
    (options) => ask("POST", ["webhooks", name, "replay"], { body, ...options }), replayed, "primary");
  const load = async (cursor) => {
    const { letters, cursor: next } = await ask("GET", ["webhooks", name, "dead"], { query: page(cursor) });
    return { entries: letters, cursor: next };
  };
  const row = ({ id, time }) => [
    moment(time), foreign(id ?? "unreadable"),
    id ? replay("Send again", ["Send ", foreign(id), " again?"], { id, since: time }) : "",
  ];
  const letters = await list("Dead letters", ["Time", "Webhook id", "Act"], load, row);
  return [
    make("h2", {}, "Endpoint ", foreign(name)),
    make("p", {}, endpoint?.turnedOff ? "off (it answered 410)" : "on"),
    replay("Send all again", ["Send all dead letters of ", foreign(name), " again?"], {}),
    letters,
  ];
}

const usersBut = (one, users) => users.filter((user) => user !== one).flatMap((user) => [userLink(user), " "]);

function callCells({ callID, state, endReason, inviter, members, createdAt, endedAt }) {
  return [
    callLink(callID), endReason ? `${state}: ${endReason}` : state, userLink(inviter),
    usersBut(inviter, members.map(({ userID }) => userID)), moment(createdAt), moment(endedAt),
  ];
}

function endForm(call) {
  const reason = make("input", { id: "reason", maxlength: "256", autocomplete: "off", "aria-describedby": "reason-hint" });
  const end = actButton("End the call", ["End the call ", foreign(call.callID), " for all?"],
    (options) => ask("POST", ["calls", call.callID, "end"], { body: { reason: reason.value || null }, ...options }),
    () => "The call is ended.");
  return make("div", {}, make("label", { for: "reason" }, "Reason (may be empty)"), make("p", { class: "row" }, reason, end),
    make("p", { class: "hint", id: "reason-hint" }, "The members’ apps see the reason of an advanced call; the audit log keeps it."));
}

/** How many pushes of a call had which outcome. */
function pushes(entries) {
  const counts = new Map();
  for (const { kind, push, platform, outcome } of entries) {
    if (kind !== "push") continue;
    const key = JSON.stringify([outcome, platform, push]);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  if (counts.size === 0) return make("p", { class: "hint" }, "None in the timeline.");
  const rows = table("Pushes by outcome", ["Outcome", "Platform", "Push", "Count"]);
  for (const [key, count] of counts) rows.add(...JSON.parse(key).map((text) => foreign(text)), String(count));
  return rows.element;
}

/** The fields of an entry of a timeline that have no column. */
function details(entry) {
  const columns = ["time", "at", "after", "kind", "userID", "coordinator"];
  return Object.entries(entry).filter(([name]) => !columns.includes(name))
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

// ---- Going from view to view

/** The view and its id, from the address. */
function wanted() {
  try {
    const [view, ...ids] = location.hash.slice(1).split("/").map(decodeURIComponent);
    return Object.hasOwn(views, view) ? [view, ...ids] : ["live"];
  } catch {
    return ["live"];
  }
}

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const [view, ...ids] = wanted();
  for (const link of document.querySelectorAll("#places a")) {
    if (link.getAttribute("href") === place(view)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byID("view").setAttribute("aria-busy", "true");
  try {
    const parts = await views[view](...ids);
    if (signal.aborted) return;
    const again = make("button", { type: "button", click: () => attempt(open, again) }, "Refresh");
    byID("view").replaceChildren(...parts, make("p", {}, again));
  } catch (error) {
    if (!signal.aborted) byID("view").replaceChildren();
    throw error;
  } finally {
    if (!signal.aborted) byID("view").removeAttribute("aria-busy");
  }
}

/** Shows the wanted view, and moves the focus to its heading, which a screen reader then tells. */
async function open() {
  say();
  await show();
  const heading = byID("view").querySelector("h2");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus();
}

function leave() {
  token = "";
  shown.abort();
  byID("view").replaceChildren();
  for (const id of ["places", "leave", "view"]) byID(id).hidden = true;
  byID("enter").hidden = false;
  byID("token").focus();
}

async function enter() {
  token = byID("token").value.trim();
  try {
    await ask("GET", ["audit"], { query: { count: 1 }, signal: null });
  } catch (error) {
    token = "";
    byID("token").select();
    return complain(reasonAgainstToken(error));
  }
  byID("token").value = "";
  for (const id of ["places", "leave", "view"]) byID(id).hidden = false;
  byID("enter").hidden = true;
  await open();
}

byID("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(enter, byID("enter").querySelector("button"));
});
byID("leave").addEventListener("click", () => {
  leave();
  say("You are signed out of this page.");
});
addEventListener("hashchange", () => {
  if (token) attempt(open);
});
