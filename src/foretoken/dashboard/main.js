// The page starts here: which view is shown, which model is behind it, whether the server is there.

import * as api from "./api.js";
import { ChatView } from "./chat.js";
import { byId, fill, h, mark, number, write } from "./dom.js";
import { LiveView } from "./live.js";
import { setDrafters } from "./origins.js";
import { RaceView } from "./race.js";
import { RequestListView, RequestView } from "./request.js";
import { TokenCard } from "./tokens.js";

const HEALTH_EVERY = 4000;

/** What every view shares. */
class App {
  constructor() {
    this.card = new TokenCard(byId("token-card"));
    /** @type {any} */
    this.props = null;
    this.ready = false;
    this.navigate = navigate;
    /** @type {Record<string, any>} */
    this.views = {
      chat: new ChatView(byId("view-chat"), this),
      race: new RaceView(byId("view-race"), this),
      live: new LiveView(byId("view-live")),
      requests: new RequestListView(byId("view-requests")),
      request: new RequestView(byId("view-request"), this),
    };
  }

  /** Ask what runs here; a key that is missing opens the dialog. */
  async load() {
    try {
      this.props = await api.get("/props");
    } catch (error) {
      if (!(error instanceof api.ApiFailure)) throw error;
      this.props = null;
      return;
    }
    setDrafters(this.props.drafters);
    showModel(this.props);
    for (const view of Object.values(this.views)) view.loaded?.(this.props);
  }
}

/** @param {any} props */
function showModel(props) {
  byId("model-name").textContent = props.model_alias.replace(/\.gguf$/, "");
  const facts = {
    model: props.description,
    drafters: props.drafters.join(", ") || "none",
    slots: `${props.total_slots}, ${number(props.default_generation_settings.n_ctx)} tokens each`,
    library: props.build_info,
  };
  const rows = Object.entries(facts).flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]);
  fill(byId("model-info"), ...rows);
}

/** @returns {[string, string]} the view that the address names, and what of it */
function route() {
  const request = location.pathname.match(/^\/requests\/([^/]+)$/);
  if (request) return ["request", decodeURIComponent(request[1])];
  const name = location.hash.slice(1);
  return ["race", "live", "requests"].includes(name) ? [name, ""] : ["chat", ""];
}

let shown = "";

function show() {
  const [name, what] = route();
  app.card.hide();
  if (name !== shown && shown) app.views[shown].leave?.();
  for (const section of document.querySelectorAll("main > .view")) {
    /** @type {HTMLElement} */ (section).hidden = section.id !== `view-${name}`;
  }
  for (const link of document.querySelectorAll("nav a")) {
    const here = /** @type {HTMLElement} */ (link).dataset.view === (name === "request" ? "requests" : name);
    here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  document.title = name === "chat" ? "foretoken" : `foretoken · ${name}`;
  shown = name;
  app.views[name].enter?.(what);
}

/** @param {string} address */
function navigate(address) {
  history.pushState(null, "", address);
  show();
  scrollTo({ top: 0 });
}

function followLinks() {
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest?.("a[data-nav]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    navigate(/** @type {string} */ (link.getAttribute("href")));
  });
  addEventListener("popstate", show);
}

function askForKeys() {
  const dialog = byId("key-dialog");
  let asked = false;
  api.onKeyWanted(() => {
    if (dialog.open) return;
    byId("key-words").textContent = api.key()
      ? "The key that was given is not one of this server's. Try another."
      : "It is kept in this tab only, and sent to this server only.";
    byId("key-words").classList.toggle("wrong", Boolean(api.key()));
    byId("key-input").value = "";
    asked = true;
    dialog.showModal();
  });
  byId("key-later").addEventListener("click", () => dialog.close());
  byId("key-form").addEventListener("submit", async () => {
    if (!asked) return;
    api.setKey(byId("key-input").value.trim());
    await app.load();
    if (app.props) show();
  });
}

async function followHealth() {
  for (;;) {
    // Whoever watches the server knows; and nobody looks at a hidden page.
    const { ready, words } = app.views.live.hears ? { ready: true, words: "ready" } : await api.health();
    const status = byId("status");
    write(status, words);
    mark(status, "data-state", ready ? "ready" : "away");
    if (ready && !app.ready) await app.load();
    app.ready = ready;
    await new Promise((resolve) => setTimeout(resolve, ready ? HEALTH_EVERY : 1000));
    await shownToSomeone();
  }
}

/** @returns {Promise<void>} */
function shownToSomeone() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", () => resolve(), { once: true }));
}

const app = new App();
askForKeys();
followLinks();
show();
followHealth();
