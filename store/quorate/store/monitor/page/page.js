// The live page of a group. It shows what /api/group sends, and nothing that is sent becomes HTML.

const byId = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en");
const rate = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const RETRY_SECONDS = 2;
const STALE_SECONDS = 15;
let heardAt = 0;
let latest = null;

function made(tag, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${bytes.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

function span(seconds) {
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

function some(number, one) {
  return `${count.format(number)} ${one}${number === 1 ? "" : "s"}`;
}

function storeCard(store, by) {
  const level = store.problem ? "bad" : store.limbo || store.is_disk_low || store.lacking ? "warn" : "good";
  const card = made("li", "", `is-${level}`);
  card.dataset.store = store.name;
  const title = made("h3");
  title.append(made("span", store.name + (store.name === by ? " (this store)" : "")));
  const word = store.problem ? "away" : store.limbo ? "in limbo" : store.lacking ? "repairing" : "well";
  if (store.is_replica) title.append(made("small", "replica"));
  title.append(made("span", word, { bad: "bad-text", warn: "warn-text", good: "good" }[level]));
  card.append(title, made("p", store.address));
  if (store.problem || store.limbo) card.append(made("p", store.problem || store.limbo, "why"));
  if (store.problem) return card;
  card.append(made("p", `${rate.format(store.batches_per_second)} batches/s · ${some(store.messages, "message")} · ${some(store.subscribers, "subscriber")}`));
  const disk = made("p", `disk ${size(store.disk_used_bytes)} used, ${size(store.disk_free_bytes)} free`);
  if (store.is_disk_low) disk.className = "why";
  card.append(disk, made("p", `sync ${(store.sync_seconds * 1000).toFixed(2)} ms · up ${span(store.uptime_seconds)} · ${store.version}`));
  if (store.is_replica) card.append(made("p", store.behind ? `${some(store.behind, "message")} behind` : "has all messages"));
  if (store.lacking) card.append(made("p", `lacks ${some(store.lacking, "message")}`, "why"));
  return card;
}

function sourceRow(source) {
  const row = made("tr");
  row.dataset.source = `${source.topic}/${source.session}`;
  const name = made("td", "", "name");
  const open = made("button", `${source.topic}/${source.session}`);
  open.title = "Show the last messages of the topic";
  open.addEventListener("click", () => readLast(source.topic));
  name.append(open);
  if (source.application) name.append(made("div"));
  if (source.application) name.lastChild.append(made("small", source.application));
  const state = made("td", source.is_live ? "live" : `silent for ${span(source.idle_seconds)}`, source.is_live ? "good" : "");
  state.append(made("small", ` epoch ${source.epoch}`));
  const unstable = Math.max(0, source.high - source.stable);
  row.append(name, state, made("td", rate.format(source.messages_per_second), "number"));
  row.append(made("td", count.format(source.high), "number"), made("td", count.format(unstable), "number"));
  const stores = made("td");
  for (const [store, held] of Object.entries(source.stores)) {
    const behind = source.high - held.high;
    const trouble = held.limbo ? "in limbo" : held.lacking ? `lacks ${count.format(held.lacking)}` : behind > 0 ? `−${count.format(behind)}` : "";
    const name = held.is_replica ? `${store} (replica)` : store;
    stores.append(made("div", trouble ? `${name} ${trouble}` : name, held.limbo || held.lacking ? "bad-text" : ""));
  }
  const receivers = made("td");
  for (const receiver of source.receivers.slice(0, 5)) {
    const line = made("div", `${receiver.session} ${receiver.behind ? `−${count.format(receiver.behind)}` : "has all"}`);
    if (receiver.application) line.append(made("small", ` ${receiver.application}`));
    receivers.append(line);
  }
  if (source.receiver_count > 5) receivers.append(made("div", `and ${source.receiver_count - 5} more`));
  row.append(stores, receivers);
  return row;
}

function subscriberRow(subscriber) {
  const row = made("tr");
  const name = made("td", subscriber.application || subscriber.client, "name");
  row.append(name, made("td", subscriber.topics, "bytes"), made("td", subscriber.store));
  row.append(made("td", rate.format(subscriber.messages_per_second), "number"));
  row.append(made("td", count.format(subscriber.behind), "number"), made("td", span(subscriber.seconds)));
  return row;
}

function queueRow(queue) {
  const row = made("tr");
  row.dataset.queue = queue.name;
  const dispatcher = made("td", queue.dispatcher || queue.problem || "none", queue.dispatcher ? "" : "bad-text");
  row.append(made("td", queue.name, "name"), dispatcher, made("td", rate.format(queue.messages_per_second), "number"));
  for (const field of ["ready", "leased", "waiting", "dead", "consumers"]) {
    const cell = made("td", count.format(queue[field]), field === "dead" && queue.dead ? "number bad-text" : "number");
    cell.dataset.field = field;
    row.append(cell);
  }
  return row;
}

function bytes(value) {
  const end = value.is_cut ? " …" : "";
  return "text" in value ? made("span", value.text + end) : made("span", value.hex + end, "hex");
}

function messageRow(message) {
  const row = made("tr");
  const time = made("td", new Date(message.time).toLocaleTimeString());
  const key = made("td", "", "bytes");
  if (message.key) key.append(bytes(message.key));
  const properties = made("td", "", "bytes");
  for (const [name, value] of Object.entries(message.properties)) {
    const line = made("div", `${name}=`);
    line.append(bytes(value));
    properties.append(line);
  }
  const payload = made("td", "", "bytes");
  payload.append(message.deletes ? made("em", "deletes the row of its key") : bytes(message.payload));
  if (message.payload.is_cut) payload.append(made("small", ` ${size(message.bytes)} in all`));
  row.append(time, made("td", message.session), made("td", count.format(message.sequence), "number"), key, properties, payload);
  return row;
}

async function readLast(topic) {
  byId("last").hidden = false;
  byId("last").dataset.topic = topic;
  byId("last-topic").textContent = `of ${topic}, as this store has them`;
  byId("last-messages").replaceChildren();
  try {
    const answer = await fetch(`api/topics/${encodeURIComponent(topic)}/last`, { headers: authorization(), cache: "no-store" });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error ?? found.reason);
    if (byId("last").dataset.topic !== topic) return;
    byId("last-problem").textContent = found.messages.length ? "" : "no stable message here";
    byId("last-messages").replaceChildren(...found.messages.map(messageRow));
  } catch (error) {
    byId("last-problem").textContent = error.message;
  }
}

function authorization() {
  const token = sessionStorage.getItem("token");
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function eventLine(event) {
  const line = made("li");
  const time = made("time", new Date(event.at * 1000).toLocaleTimeString());
  time.dateTime = new Date(event.at * 1000).toISOString();
  line.append(time, made("span", event.text, { bad: "bad-text", good: "good", plain: "" }[event.level]));
  return line;
}

function show(view) {
  latest = view;
  byId("token-form").hidden = true;
  byId("main").hidden = false;
  byId("stores").replaceChildren(...view.stores.map((store) => storeCard(store, view.by)));
  const wanted = byId("filter").value.toLowerCase();
  const sources = view.sources.filter((source) => source.topic.toLowerCase().includes(wanted));
  byId("sources").replaceChildren(...sources.map(sourceRow));
  byId("no-sources").hidden = view.sources.length > 0;
  byId("source-count").textContent = sources.length < view.source_count
    ? `${count.format(sources.length)} of ${count.format(view.source_count)}` : count.format(view.source_count);
  byId("readers").hidden = view.subscribers.length === 0;
  byId("subscribers").replaceChildren(...view.subscribers.map(subscriberRow));
  byId("queue-section").hidden = view.queues.length === 0;
  byId("queues").replaceChildren(...view.queues.map(queueRow));
  const events = [...view.events].reverse();
  byId("events").replaceChildren(...events.map(eventLine));
  byId("no-events").hidden = events.length > 0;
}

function say(text, isStale = false) {
  byId("state").textContent = text;
  byId("state").classList.toggle("stale", isStale);
}

function askForToken(isWrong) {
  byId("main").hidden = true;
  byId("token-form").hidden = false;
  say(isWrong ? "the token does not permit this" : "", isWrong);
  byId("token").focus();
}

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield* lines;
  }
}

async function follow() {
  const headers = authorization();
  const answer = await fetch("api/group", { headers, cache: "no-store" });
  if (answer.status === 401) {
    sessionStorage.removeItem("token");
    askForToken("Authorization" in headers);
    return false;
  }
  if (!answer.ok) throw new Error((await answer.json()).reason ?? answer.statusText);
  for await (const line of linesOf(answer.body)) {
    if (!line.startsWith("data: ")) continue;
    heardAt = Date.now();
    const view = JSON.parse(line.slice(6));
    show(view);
    say(`live, as store ${view.by} sees it at ${new Date(view.at * 1000).toLocaleTimeString()}`);
  }
  throw new Error("the store has ended the stream");
}

async function run() {
  for (;;) {
    try {
      if (!(await follow())) return;
    } catch (error) {
      say(`not connected: ${error.message}. Trying again …`, true);
    }
    await new Promise((done) => setTimeout(done, RETRY_SECONDS * 1000));
  }
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value);
  byId("token").value = "";
  run();
});
byId("last-again").addEventListener("click", () => readLast(byId("last").dataset.topic));
byId("last-close").addEventListener("click", () => { byId("last").hidden = true; });
byId("filter").addEventListener("input", () => latest && show(latest));
setInterval(() => {
  if (latest && Date.now() - heardAt > STALE_SECONDS * 1000) say("nothing heard for a while: this may be old", true);
}, 1000);
run();
