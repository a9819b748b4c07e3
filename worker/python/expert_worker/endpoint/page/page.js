"use strict";
// Asks the base and an expert the same, and shows both answers as they arrive.
const byId = (id) => document.getElementById(id);
let models = [];
let questions = [];
let running = null;

function headers() {
  const token = byId("token").value.trim();
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function show(problem) {
  byId("problem").textContent = problem;
  byId("problem").hidden = !problem;
}

// Browsers say of a server that is gone only that fetching failed, each in its own words.
const words = (error) => (error instanceof TypeError ? "The server does not answer: has it ended?" : error.message);

async function message(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered with status ${response.status}`;
  }
}

async function load() {
  const response = await fetch("v1/models", { headers: headers() });
  byId("token-line").hidden = response.status !== 401 && !byId("token").value;
  if (!response.ok) throw new Error(await message(response));
  models = (await response.json()).data;
  const experts = models.filter((model) => model.id !== "base");
  byId("expert").replaceChildren(...experts.map((model) => new Option(model.id, model.id)));
  const base = experts.find((model) => model.base)?.base;
  if (base) document.querySelector("h1").textContent = `Experts on ${base}`;
  choose();
  show("");
}

const percent = (share) => `${(100 * share.accuracy).toFixed(1)} %`;
const interval = (share) => `${(100 * share.low).toFixed(1)} to ${(100 * share.high).toFixed(1)} %`;

function describe() {
  const model = models.find((one) => one.id === byId("expert").value);
  const score = model?.score;
  if (model?.id === "auto") {
    byId("score").textContent = "The router chooses an expert, or the base";
    return;
  }
  if (!score?.adapter) {
    const known = model?.partly_measured ? `measured ${model.partly_measured} only` : "not measured";
    byId("score").textContent = model && "score" in model ? `Its score is ${known}: expert-cli evaluate` : "";
    return;
  }
  const examples = score.base_examples ? ` with ${score.base_examples} examples in its prompt; here it gets none` : "";
  const base = score.base ? `; base ${percent(score.base)}${examples}` : "";
  byId("score").textContent =
    `${score.measure} ${percent(score.adapter)} (${interval(score.adapter)}) of ${score.rows} test rows${base}`;
}

function choose() {
  // An answer stays under the name of the expert that wrote it.
  byId("expert-name").textContent = byId("expert").value || "expert";
  for (const part of ["answer", "about"]) byId(`expert-${part}`).textContent = "";
  describe();
  loadQuestions();
}

// The tags and test questions of the chosen expert; none where its run is not on the server.
async function loadQuestions() {
  const name = byId("expert").value;
  let found = { tags: [], questions: [] };
  try {
    const response = await fetch(`v1/models/${encodeURIComponent(name)}/questions`, { headers: headers() });
    if (response.ok) found = await response.json();
  } catch {
    // The page works without them.
  }
  if (name !== byId("expert").value) return;
  questions = found.questions;
  const count = (tag) => questions.filter((one) => one.tags.includes(tag.name)).length;
  const right = (tag) => (tag.score ? `; ${tag.score.correct} of ${tag.score.total} right` : "");
  byId("tag").replaceChildren(
    new Option(`anything (${questions.length})`, ""),
    ...found.tags.map((tag) => new Option(`${tag.name} (${count(tag)}${right(tag)})`, tag.name)),
  );
  byId("questions").hidden = !questions.length;
  listQuestions();
}

function listQuestions() {
  const tag = byId("tag").value;
  const shown = questions.filter((one) => !tag || one.tags.includes(tag));
  // What is asked often stands last, below a schema or a text.
  const title = (prompt) => prompt.trim().split("\n").pop().slice(0, 100);
  byId("question").replaceChildren(
    new Option("choose one", ""),
    ...shown.map((one) => new Option(title(one.prompt), one.prompt)),
  );
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += value;
    const parts = waiting.split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const text = part.replace(/^data: /, "");
      if (text === "[DONE]") return;
      yield JSON.parse(text);
    }
  }
}

async function ask(model, prompt, panel, signal) {
  const answer = byId(`${panel}-answer`);
  const about = byId(`${panel}-about`);
  answer.textContent = "";
  about.textContent = "waiting";
  if (panel === "expert") byId("expert-name").textContent = model;
  const began = performance.now();
  const seconds = () => `${((performance.now() - began) / 1000).toFixed(1)} s`;
  try {
    const response = await fetch("v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers() },
      body: JSON.stringify({
        model, messages: [{ role: "user", content: prompt }], stream: true, stream_options: { include_usage: true },
      }),
      signal,
    });
    if (!response.ok) throw new Error(await message(response));
    let end = "";
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      if (model === "auto") byId("expert-name").textContent = `auto: ${event.model}`;
      const choice = event.choices[0];
      if (choice?.delta.content) answer.append(choice.delta.content);
      if (choice?.finish_reason) end = choice.finish_reason === "length" ? ", cut at its limit" : "";
      about.textContent = event.usage ? `${event.usage.completion_tokens} tokens, ${seconds()}${end}` : seconds();
    }
  } catch (error) {
    about.textContent = error.name === "AbortError" ? "stopped" : words(error);
  }
}

async function askBoth(event) {
  event.preventDefault();
  if (running) return;
  running = new AbortController();
  busy(true);
  const prompt = byId("prompt").value;
  await Promise.all([
    ask("base", prompt, "base", running.signal),
    ask(byId("expert").value, prompt, "expert", running.signal),
  ]);
  running = null;
  busy(false);
}

// While answers arrive, no other expert can be chosen.
function busy(is) {
  byId("send").disabled = is;
  byId("expert").disabled = is;
  byId("stop").disabled = !is;
}

byId("ask").addEventListener("submit", askBoth);
byId("stop").addEventListener("click", () => running?.abort());
byId("expert").addEventListener("change", choose);
byId("tag").addEventListener("change", listQuestions);
byId("question").addEventListener("change", () => {
  if (byId("question").value) byId("prompt").value = byId("question").value;
});
byId("token").addEventListener("change", () => load().catch((error) => show(words(error))));
byId("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
});
load().catch((error) => show(words(error)));
