// <tally-check>, an element that proves work for the form it is in: docs/forms.md.

import { prove, tallyFetch, ticket } from "./fetch.js";
import { coarse, duration, inTime, known, text } from "./texts.js";

export { solve } from "./solver.js";
export { prove, tallyFetch, ticket };

const HOLD = 1000;    // milliseconds in which a second click is part of the first
const QUICK = 400;    // milliseconds in which a check is over before it is worth a word
const HEARD = 500;    // milliseconds for which a word is left standing, to be read out
const FRESH = 2e4;    // milliseconds for which the server's answer is believed
const WORTH = 5;      // seconds of work that are worth an estimate
const PATIENCE = 300; // seconds after which a form is not sent by itself any more
const TURNS = 10;     // waits for one submission

// What a submission goes by. A field of the form may have the name of a property.
const attribute = (name, form, submitter) =>
  (submitter?.getAttribute(`form${name}`) ?? form.getAttribute(name) ?? "").toLowerCase();

function obstacle(error) {
  const { reason, status, terms } = error;
  if (reason) return { "too-much-work": "dear", "too-slow": "slow", expired: "slow", "no-cookies": "cookies", setup: "setup" }[reason] ?? "error";
  // Work is wanted, and nobody has any to give: sold out, memory full, the price rises.
  if (status === 429 || terms?.challenge || terms?.type?.endsWith("#proof-required")) return "limit";
  if (status === 401 || status === 403) return "forbidden";
  if (status >= 500) return "server";
  if (error instanceof TypeError) return navigator.onLine ? "server" : "offline"; // fetch's
  return "error";
}

export class TallyCheck extends HTMLElement {
  static formAssociated = true;

  #form = null;
  #words = document.createElement("span");
  #status = document.createElement("span");
  #timer = document.createElement("span"); // what changes by the second, and is not read out
  #button = document.createElement("button");
  #bar = document.createElement("progress");
  #run = null;      // the promise of verify, while it works
  #abort = null;
  #until = 0;       // when the server's answer is too old
  #held = false;    // a submission is under way
  #passing = false; // and is ours
  #submitter = null;
  #again = null;    // begins a submission again that has failed
  #wake = null;     // ends a wait
  #focused = false;
  #slow = 0;        // a timer
  #tick = 0;        // and another
  #frame = 0;       // in which progress was shown
  #long = false;    // the check has shown itself
  #left = Infinity; // the seconds that are shown

  get form() { return this.#form; }
  get state() { return this.dataset.state; }
  get endpoint() { return this.getAttribute("endpoint"); }
  get #auto() { return this.getAttribute("auto"); }
  get #cost() { return +(this.getAttribute("cost") ?? 1); }
  get #fresh() { return this.state === "done" && performance.now() < this.#until; }
  get #busy() { return this.state === "working" || this.state === "waiting"; }

  connectedCallback() {
    addEventListener("pageshow", this);
    addEventListener("online", this);
    if (this.contains(this.#words)) return; // it has been moved
    this.#status.setAttribute("role", "status");
    this.#timer.setAttribute("role", "timer");
    this.#words.tabIndex = -1;
    this.#words.replaceChildren(this.#status, " ", this.#timer);
    this.#button.type = "button";
    this.#button.onclick = () => this.#press();
    this.#bar.setAttribute("aria-label", this.#text("working"));
    // What stood here was for browsers without scripts.
    this.replaceChildren(this.#words, this.#button, this.#bar);
    this.#set("idle");
  }

  connectedMoveCallback() {}

  disconnectedCallback() {
    removeEventListener("pageshow", this);
    removeEventListener("online", this);
    // To move it is to take it out and put it in again: it goes on.
    queueMicrotask(() => this.isConnected || this.reset());
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
    if (type === "online") return this.#online();
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
    this.#held = this.#button.hidden = true;
    this.#passing = false;
    setTimeout(() => {
      setTimeout(() => { this.#held = false; }, event.defaultPrevented ? 0 : HOLD);
      if (event.tally) return; // another check of this form has stopped it, to begin it again
      this.#until = 0;
      if (event.defaultPrevented) this.#say(); // it has words of its own
    });
  }

  // #submit proves, then submits as the user did. No button is disabled: the value
  // of a disabled one would not be sent.
  async #submit(submitter) {
    const form = this.#form;
    this.#held = true;
    this.#submitter = submitter;
    this.#again = () => this.#submit(submitter);
    if (!await this.verify() || form !== this.#form) return this.#held = false;
    // Browsers open windows only for some seconds after a click.
    const target = attribute("target", form, submitter);
    if (target && !/^_(self|parent|top)$/i.test(target) && navigator.userActivation?.isActive === false) {
      this.#say("done");
      return this.#held = this.#offer("retry");
    }
    const signal = this.#abort?.signal;
    // Not in this task, which may be the one that handles the submit event.
    setTimeout(() => {
      if (signal?.aborted) return;
      this.#passing = true;
      // A field called requestSubmit would hide the form's own.
      HTMLFormElement.prototype.requestSubmit.call(form, submitter?.form === form ? submitter : null);
      if (this.#passing) this.#held = this.#passing = false; // a field is not valid any more
    }, this.#long ? HEARD : 0);
  }

  // verify proves what the next request needs. Of many calls at once, one works.
  verify(quietly) {
    if (this.#fresh) return Promise.resolve(true);
    return this.#run ??= this.#verify(quietly === true);
  }

  async #verify(quietly) {
    const { signal } = this.#abort = new AbortController();
    let result, error;
    this.#long = false;
    for (let turns = TURNS; ; turns--) {
      this.#set("working");
      result = await this.#prove(signal).catch((e) => { error = e; });
      if (signal.aborted) return false;
      if (result) break;
      const reason = obstacle(error), { wait } = error;
      // A form that somebody has sent has time; a page that asks does not.
      const way = this.#held && turns ? await this.#wayOn(reason, wait, signal) : { reason, wait };
      if (signal.aborted) return false;
      if (way.reason) {
        this.#run = null;
        this.#set(quietly && !this.#held ? "idle" : "error", { ...way, error });
        return false;
      }
      if (way.open) { result = {}; break; }
    }
    this.#run = null;
    this.#until = performance.now() + Math.min(FRESH, 1000 * result["expires-in"] - 1000 || FRESH);
    this.#set("done", result);
    return true;
  }

  #prove(signal) {
    const { challenge } = this.dataset; // that of the page, good for its first check
    delete this.dataset.challenge;
    return prove(this.endpoint, {
      signal,
      challenge,
      cost: this.#cost,
      maxWork: +(this.getAttribute("max-work") ?? 2**28),
      onagain: (reason) => {
        if (reason !== "price-risen") return;
        clearTimeout(this.#slow);
        this.#begin("risen");
      },
      onprogress: (done, total, left) => {
        if (this.#frame) return; // there is nobody to see it
        this.#frame = requestAnimationFrame(() => { this.#frame = 0; });
        this.#bar.value = done / total;
        this.#estimate(left / 1000);
        this.#emit("tally-progress", { done, total, left });
      },
    });
  }

  // #wayOn waits, if waiting leads on. It returns {} to try again, open to go by the waiting
  // room, or the reason to give up, perhaps with the seconds of a wait that is too long.
  async #wayOn(reason, after, signal) {
    if (reason === "offline") {
      this.#set("waiting", { reason });
      await this.#sleep(signal);
      return {};
    }
    if (["limit", "dear", "slow"].includes(reason)) {
      for (let turn = 0; turn < TURNS; turn++) {
        const place = await ticket(this.endpoint, { signal, cost: this.#cost }).catch(() => null);
        if (!place || signal.aborted || after && after < place.wait) break;
        if (!place.wait) return { open: true };
        if (turn && !place.carried) return { reason: "cookies" };
        if (place.wait > PATIENCE) return { reason, wait: place.wait };
        await this.#waitFor(place.wait, reason, signal);
      }
    }
    if (!after || after > PATIENCE) return { reason, wait: after };
    await this.#waitFor(after, reason, signal);
    return {};
  }

  #waitFor(seconds, reason, signal) {
    this.#set("waiting", { reason, wait: seconds });
    return this.#sleep(signal);
  }

  #sleep(signal) {
    return new Promise((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", resolve);
    });
  }

  #online() {
    const { state, dataset: { reason } } = this;
    if (state === "waiting" && reason === "offline") this.#wake();
    if (state === "error" && reason === "server") this.#again?.(); // the network it was
  }

  #press() {
    if (!this.#busy) return this.#again ? this.#again() : this.verify();
    const back = this.#submitter ?? this.#words;
    this.reset();
    back.focus();
  }

  // What was bought stays bought.
  reset() {
    this.#stop();
    this.#again = null;
    this.#focused = false;
    this.#set("idle");
  }

  #stop() {
    const abort = this.#abort;
    this.#abort = this.#run = null;
    this.#held = false;
    clearTimeout(this.#slow);
    clearTimeout(this.#tick);
    this.#form?.removeAttribute("aria-busy");
    abort?.abort();
  }

  get #lang() {
    const [lang] = (this.closest("[lang]")?.lang || navigator.language).toLowerCase().split("-");
    return /^[a-z]{2,3}$/.test(lang) ? lang : "en";
  }

  #text(key) { return this.getAttribute(`text-${key}`) ?? text(known(this.#lang), key); }

  #timed(key, words, seconds) {
    const lang = this.hasAttribute(`text-${key}`) ? this.#lang : known(this.#lang);
    return this.#text(key).replace("{}", () => words(lang, seconds));
  }

  // #say changes what is read out, once, and #clock what only stands there. The first
  // time is read out too.
  #say(...keys) {
    this.#status.textContent = keys.filter(Boolean).map((key) => this.#text(key)).join(" ").trim();
  }

  #clock(words) {
    if (this.#timer.textContent === words) return;
    this.#timer.setAttribute("aria-live", this.#timer.textContent ? "off" : "polite");
    this.#timer.textContent = words;
  }

  #offer(key) {
    this.#button.textContent = this.#text(key);
    return this.#button.hidden = false;
  }

  #begin(key) {
    this.#bar.value = 0;
    this.#left = Infinity;
    this.#bar.hidden = false;
    this.#say(key);
  }

  // #estimate shows the time that is left. It goes down; up only if it was far out.
  #estimate(seconds) {
    if (this.#bar.hidden || !(seconds > (this.#left < Infinity ? 0 : WORTH))) return;
    seconds = coarse(seconds);
    if (seconds >= this.#left && seconds < 1.5 * this.#left + 10) return;
    this.#left = seconds;
    this.#clock(this.#timed("about", duration, seconds));
    this.#offer("cancel");
  }

  #count(until, words, over) {
    const left = Math.ceil((until - Date.now()) / 1000); // a device that has slept has waited
    if (left <= 0) return over();
    this.#clock(words(left));
    this.#tick = setTimeout(() => this.#count(until, words, over), Math.min(1000, until - Date.now()));
  }

  // #set shows a state. A check that is quickly over is not worth showing at work.
  #set(state, { reason, wait, ...detail } = {}) {
    if (this.#busy) this.#long ||= state === "waiting" || !this.#bar.hidden;
    this.dataset.state = state;
    if (reason) this.dataset.reason = reason;
    else delete this.dataset.reason;
    this.#form?.[state === "working" ? "setAttribute" : "removeAttribute"]("aria-busy", "true");
    this.#button.hidden = this.#bar.hidden = true;
    this.#clock("");
    clearTimeout(this.#slow);
    clearTimeout(this.#tick);
    this.#show(state, reason, wait, detail["expires-in"]);
    this.#emit("tally-state", { state, reason, wait, ...detail });
  }

  #show(state, reason, wait, bought) {
    const until = Date.now() + 1000 * wait;
    switch (state) {
      case "idle":
        return this.#say("idle");
      case "working":
        this.#slow = setTimeout(() => this.#begin("working"), QUICK);
        return;
      case "done": // where nothing was needed there is nothing to say
        return this.#say(bought && "done", this.#long && this.#held && "sending");
    }
    this.hidden = false; // never a silent block
    if (state === "waiting") {
      this.#say(reason, "wait");
      this.#offer("cancel");
      if (wait) this.#count(until, (s) => this.#timed("left", duration, s), () => this.#wake());
      return;
    }
    this.#say(reason, "unsent");
    const retry = () => {
      this.#clock("");
      this.#offer("retry");
    };
    if (wait) this.#count(until, (s) => this.#timed("later", inTime, s), retry);
    else retry();
    if (this.#held) this.#guide();
  }

  // #guide moves the focus from the button that has failed to what is next. It leaves
  // somebody alone who has gone elsewhere.
  #guide() {
    const at = this.getRootNode().activeElement;
    if (at && at !== document.body && at !== this.#submitter && !this.contains(at)) return;
    (this.#button.hidden ? this.#words : this.#button).focus();
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { bubbles: true, composed: true, detail }));
  }
}

// A page with two policies may load this file twice.
customElements.get("tally-check") ?? customElements.define("tally-check", TallyCheck);
