// Tallystick in the browser: tallyFetch, a fetch that echoes tokens and answers
// challenges, and <tally-check>, an element that proves work for the form it is
// in. Served by Middleware.Endpoints; see the package documentation for how to use it.

import { solve } from "./solver.js";

export { solve };

const TOKEN = "Tallystick-Token", PROOF = "Tallystick-Proof";
const TRIES = 3; // for one request: a challenge may expire, a price may have risen

const HOLD = 1000;  // milliseconds in which a second click is part of the first
const QUICK = 400;  // milliseconds in which a check is over before it is worth a word
const FRESH = 2e4;  // milliseconds for which the server's answer is believed

// challengeOf returns the challenge of a refusal. A page of another origin may not
// see the field, so the body has it too.
async function challengeOf(response) {
  if (response.status !== 429 && response.status !== 403) return null;
  return response.headers.get("Tallystick-Challenge") ?? (await response.clone().json().catch(() => null))?.challenge;
}

// ok returns what an endpoint has answered, or throws: with the status, and the
// seconds to wait if the server has named them.
async function ok(response) {
  if (response.ok) return response.json();
  const { status, headers, url } = response;
  throw Object.assign(new Error(url), { status, wait: +headers.get("Retry-After"), terms: await response.json().catch(() => null) });
}

// ask asks for a challenge, and whether a request of this cost needs one at all.
const ask = async (endpoint, cost, init) => ok(await fetch(`${endpoint}challenge?cost=${cost}`, init));

// prove makes sure that the next request is admitted, as far as a proof can: it
// asks and, if work is needed, solves and redeems, so that a cookie carries what
// was bought. It returns what the server has said: needed; left, where the limits
// were asked; and after a purchase work and expires-in.
export async function prove(endpoint, { signal, cost = 1, ...options } = {}) {
  let tries = TRIES, terms = await ask(endpoint, cost, { signal });
  while (terms.needed !== false) { // a refusal does not say
    try {
      const proof = await solve(terms.challenge, { signal, ...options });
      // Browsers would send the proof on to wherever they are redirected.
      const bought = await ok(await fetch(`${endpoint}redeem`, { method: "POST", headers: { [PROOF]: proof }, redirect: "error", signal }));
      return { ...terms, ...bought };
    } catch (error) {
      if (!--tries || error.status !== 403 && error.reason !== "expired") throw error;
      // Behind a balancer the instance that has refused may ask for more than others.
      terms = error.terms?.challenge ? error.terms : await ask(endpoint, cost, { signal });
    }
  }
  return terms;
}

// The newest tokens, by origin and then by their header, in which those of
// different policies differ.
const tokens = {};

// The purchase under way, by origin: of many requests refused at once one buys,
// and the others try what it has bought.
const turns = {};

// tallyFetch is fetch, but echoes tokens, and where a refusal offers a challenge it
// solves it and sends the request again. What it cannot answer it returns as it is.
// A body that is a stream is sent once; where the body is that, or large, prove first.
// The options are those of solve, and header: carry tokens in the field, not by
// cookie; the default for other origins, unless credentials are "include".
//
// A token or a proof is for one origin, but browsers send fields along with a
// redirect, wherever it leads. So redirects of another origin are an error with the
// reason "redirected", and those of the page's own may not leave it while a field
// goes along. A redirect mode in init is obeyed as it stands.
export async function tallyFetch(input, init = {}, { header, ...options } = {}) {
  const request = new Request(input, init), { origin } = new URL(request.url);
  const { signal, referrer, referrerPolicy } = request;
  const stream = init.body instanceof ReadableStream;
  const home = origin === self.origin; // location has none in a frame without a URL
  const byField = header ?? (!home && request.credentials !== "include");
  // Without CORS browsers send no field, and permit no other mode.
  const wary = !init.redirect && request.redirect === "follow" && request.mode === "cors";

  const send = async (proof) => {
    const headers = new Headers(request.headers);
    if (byField && tokens[origin]) headers.set(TOKEN, Object.values(tokens[origin]).join());
    if (proof) headers.set(PROOF, proof);
    // What is not said here once more is lost with the first of these.
    const again = { headers, referrer, referrerPolicy };
    // From the first request on: one that works until there is a token helps nobody.
    if (wary && !home) again.redirect = "manual"; // unlike "error", this says why
    if (wary && home && (byField || proof)) {
      again.mode = "same-origin";
      // By the Fetch standard a page without referrers would now send Origin: null.
      again.referrerPolicy ||= "same-origin";
    }
    // A request is good for once, and its copy too.
    const response = await fetch(stream ? request : request.clone(), again);
    if (wary && response.type === "opaqueredirect") {
      throw Object.assign(new TypeError(`Tallystick: ${request.url} redirects`), { reason: "redirected" });
    }
    for (const token of response.headers.get(TOKEN)?.split(/,\s*/) ?? []) {
      (tokens[new URL(response.url).origin] ??= {})[token.split(".")[0]] = token;
    }
    return response;
  };
  const answer = async (response) => {
    for (let tries = TRIES, challenge; tries-- && (challenge = await challengeOf(response));) {
      let proof;
      try {
        proof = await solve(challenge, { signal, ...options });
      } catch (error) {
        if (!error.reason) throw error; // the signal's
        if (error.reason !== "expired") break;
      }
      response = await send(proof);
    }
    return response;
  };

  const response = await send();
  if (stream || !await challengeOf(response)) return response;
  const turn = turns[origin];
  if (turn) {
    await new Promise((next, reject) => {
      turn.then(next, next);
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    return answer(await send());
  }
  try {
    return await (turns[origin] = answer(response));
  } finally {
    delete turns[origin];
  }
}

// The texts, by language. {} is a time, such as "in 5 minutes". The attribute
// text-idle replaces the first, and so on.
const NAMES = ["idle", "working", "done", "wait", "error", "retry"];
const TEXTS = {
  en: [
    "A short check runs when you send.", "Checking…", "Checked.",
    "Too many requests. Try again {}.", "The check failed. Nothing was sent.", "Send again",
  ],
  de: [
    "Beim Senden läuft eine kurze Prüfung.", "Prüfung läuft…", "Geprüft.",
    "Zu viele Anfragen. Neuer Versuch {}.", "Prüfung gescheitert. Nichts gesendet.", "Erneut senden",
  ],
  fr: [
    "Courte vérification à l’envoi.", "Vérification…", "Vérifié.",
    "Trop de demandes. Réessayez {}.", "Vérification échouée. Rien n’a été envoyé.", "Renvoyer",
  ],
};

// inTime words a time in the largest unit that does not mislead.
function inTime(seconds, lang) {
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([size]) => seconds >= 2 * size || size < 2);
  return new Intl.RelativeTimeFormat(lang).format(Math.ceil(seconds / size), unit);
}

// attribute returns what a submission goes by. Properties will not do: a field of
// the form may have their name.
const attribute = (name, form, submitter) =>
  (submitter?.getAttribute(`form${name}`) ?? form.getAttribute(name) ?? "").toLowerCase();

export class TallyCheck extends HTMLElement {
  static formAssociated = true;

  #form = null;
  #status = document.createElement("span");
  #retry = document.createElement("button");
  #bar = document.createElement("progress");
  #run = null;      // the promise of verify, while it works
  #abort = null;
  #until = 0;       // when the server's answer is too old
  #held = false;    // a submission is under way
  #passing = false; // and is ours
  #again = null;    // begins a submission again that has failed
  #focused = false;
  #slow = 0;        // a timer

  get form() { return this.#form; }
  get state() { return this.dataset.state; }
  get endpoint() { return this.getAttribute("endpoint"); }
  get #auto() { return this.getAttribute("auto"); }
  get #fresh() { return this.state === "done" && performance.now() < this.#until; }

  connectedCallback() {
    this.#status.role = "status";
    this.#retry.type = "button";
    this.#retry.onclick = () => (this.#again ? this.#again() : this.verify());
    this.#retry.textContent = this.#text("retry");
    this.#bar.ariaLabel = this.#text("working");
    // What stood here was for browsers without scripts.
    this.replaceChildren(this.#status, this.#retry, this.#bar);
    addEventListener("pageshow", this);
    this.#set("idle");
  }

  disconnectedCallback() {
    removeEventListener("pageshow", this);
    this.#abort?.abort();
  }

  formAssociatedCallback(form) {
    this.#form?.removeEventListener("submit", this, true);
    this.#form?.removeEventListener("focusin", this);
    this.#form = form;
    // Capturing, so that others see a submission once: when it is let go.
    form?.addEventListener("submit", this, true);
    form?.addEventListener("focusin", this);
  }

  formResetCallback() { this.reset(); }

  handleEvent(event) {
    const { type, submitter, persisted } = event;
    // From the back/forward cache a page comes as it was when it was left.
    if (type === "pageshow") return persisted && this.reset();
    if (type === "focusin") {
      if (this.#auto === "focus" && !this.#focused) this.verify((this.#focused = true));
      return;
    }
    if (event.defaultPrevented || this.#auto === "off" || this.endpoint === null || this.matches(":disabled")) return;
    if (attribute("method", this.#form, submitter) === "dialog") return;
    if (this.#passing || !this.#held && this.#fresh) return this.#pass(event);
    event.preventDefault();
    event.stopImmediatePropagation();
    event.tally = this;
    if (!this.#held) this.#submit(submitter);
  }

  // #pass lets a submission go, and holds back the second click of a double click.
  // A listener that prevents the default sends by itself, and may do so again.
  #pass(event) {
    this.#held = this.#retry.hidden = true;
    this.#passing = false;
    setTimeout(() => {
      setTimeout(() => { this.#held = false; }, event.defaultPrevented ? 0 : HOLD);
      if (!event.tally) this.#until = 0; // or another check of this form has stopped it, to begin it again
    });
  }

  // #submit proves, then submits as the user did. No button is disabled: the value
  // of a disabled one would not be sent.
  async #submit(submitter) {
    const form = this.#form;
    this.#held = true;
    this.#again = () => this.#submit(submitter);
    if (!await this.verify()) return this.#held = false;
    // Browsers open windows only for some seconds after a click.
    const target = attribute("target", form, submitter);
    if (target && !/^_(self|parent|top)$/i.test(target) && navigator.userActivation?.isActive === false) {
      return this.#held = this.#retry.hidden = false;
    }
    // Not in this task, which may be the one that handles the submit event.
    setTimeout(() => {
      this.#passing = true;
      // A field called requestSubmit would hide the form's own.
      HTMLFormElement.prototype.requestSubmit.call(form, submitter?.form === form ? submitter : null);
      if (this.#passing) this.#held = this.#passing = false; // a field is not valid any more
    });
  }

  // verify proves what the next request needs, now, and returns a promise of
  // whether that went well. Of many calls at once, one works.
  verify(quietly) {
    if (this.#fresh) return Promise.resolve(true);
    return this.#run ??= this.#verify(quietly === true);
  }

  async #verify(quietly) {
    const abort = this.#abort = new AbortController();
    this.#set("working");
    let error, result;
    try {
      result = await prove(this.endpoint, {
        signal: abort.signal,
        cost: +(this.getAttribute("cost") ?? 1),
        maxWork: +(this.getAttribute("max-work") ?? 2**24),
        onprogress: (done, total) => {
          this.#bar.value = done / total;
          this.#emit("tally-progress", { done, total });
        },
      });
    } catch (e) {
      error = e;
    }
    if (this.#abort !== abort) return false; // reset
    this.#run = null;
    if (error) {
      this.#set(quietly ? "idle" : "error", { error });
      return false;
    }
    this.#until = performance.now() + Math.min(FRESH, 1000 * result["expires-in"] - 1000 || FRESH);
    this.#set("done", result);
    return true;
  }

  // reset goes back to the beginning. What was bought stays bought.
  reset() {
    const abort = this.#abort;
    this.#abort = this.#run = this.#again = null;
    this.#held = this.#focused = false;
    abort?.abort();
    this.#set("idle");
  }

  get #lang() {
    const [lang] = (this.closest("[lang]")?.lang || navigator.language).toLowerCase().split("-");
    return /^[a-z]{2,3}$/.test(lang) ? lang : "en";
  }

  #text(key) {
    return this.getAttribute(`text-${key}`) ?? (TEXTS[this.#lang] ?? TEXTS.en)[NAMES.indexOf(key)];
  }

  #say(key, seconds) {
    this.#status.textContent = this.#text(key).replace("{}", () => inTime(seconds, this.#lang));
  }

  // #set shows a state. A check that is quickly over is not worth showing at work.
  #set(state, detail) {
    this.dataset.state = state;
    this.#retry.hidden = state !== "error";
    this.#bar.hidden = true;
    clearTimeout(this.#slow);
    if (state === "working") {
      this.#bar.value = 0;
      this.#slow = setTimeout(() => {
        this.#bar.hidden = false;
        this.#say(state);
      }, QUICK);
    } else {
      const wait = detail?.error?.wait;
      this.#say(wait ? "wait" : state, wait);
    }
    if (state === "error") this.hidden = false; // never a silent block
    this.#emit("tally-state", { state, ...detail });
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { bubbles: true, composed: true, detail }));
  }
}

// A page with two policies may load this file twice.
customElements.get("tally-check") ?? customElements.define("tally-check", TallyCheck);
