// <tally-check>, an element that proves work for the form it is in: docs/forms.md.

import { prove, tallyFetch, ticket } from "./fetch.js";
import { coarse, direction, duration, inTime, known, load, text } from "./texts.js";

export { solve } from "./solver.js";
export { prove, tallyFetch, ticket };

const HOLD = 1000;    // milliseconds in which a second click is part of the first
const QUICK = 400;    // milliseconds in which a check is over before it is worth a word
const HEARD = 500;    // milliseconds for which a word is left standing, to be read out
const FRESH = 2e4;    // milliseconds for which the server's answer is believed
const WORTH = 5;      // seconds of work that are worth an estimate
const PATIENCE = 300; // seconds after which a form is not sent by itself any more
const TURNS = 10;     // waits for one submission
const GRACE = 1000;   // milliseconds in which a framework may set what it has not set yet
const SOON = 1e4;     // milliseconds in which an element that was taken out comes back as if it had stayed

// Forms whose element was taken out while it held their submission: its button, and when.
const lost = new WeakMap();

function lose(form, submitter) {
  lost.set(form, { submitter, at: Date.now() });
  for (const type of ["submit", "reset"]) form.addEventListener(type, () => lost.delete(form), { once: true });
}

// What a submission goes by. A field of the form may have the name of a property.
const attribute = (name, form, submitter) =>
  (submitter?.getAttribute(`form${name}`) ?? form.getAttribute(name) ?? "").toLowerCase();

// about returns the rules of a style sheet that are about the element, as text.
const about = (rules) => [...rules].map((rule) => {
  if (rule.selectorText) return /\btally-check\b/.test(rule.selectorText) ? rule.cssText : "";
  const inner = rule.cssRules ? about(rule.cssRules) : "";
  return inner && `${rule.cssText.split("{")[0]}{${inner}}`;
}).join("");

const style = (root) => [...root.styleSheets, ...root.adoptedStyleSheets ?? []].map((sheet) => {
  try {
    return about(sheet.cssRules);
  } catch {
    return ""; // it is of another origin
  }
}).join("");

// send submits a form as its user does. A field called requestSubmit would hide the form's own,
// and Safari before 16 has none.
function send(form, button) {
  const { requestSubmit } = HTMLFormElement.prototype;
  if (requestSubmit) return requestSubmit.call(form, button);
  const press = (button ?? document.createElement("button")).cloneNode(); // without its listeners
  press.hidden = true;
  HTMLFormElement.prototype.append.call(form, press);
  press.click();
  press.remove();
}

// framed is whether the page is in a frame of another origin.
function framed() {
  try {
    return top.origin !== origin;
  } catch {
    return true;
  }
}

// keepless is the reason that no cookie is kept.
const keepless = () => framed() ? "frame" : "cookies";

function obstacle(error) {
  const { reason, status, terms } = error;
  if (reason === "no-cookies") return keepless();
  if (reason) return { "too-much-work": "dear", "too-slow": "slow", expired: "slow", setup: "setup", frame: "frame" }[reason] ?? "error";
  // Work is wanted, and none is for sale: sold out, memory full, the price rises.
  if (status === 429 || terms?.challenge || terms?.type?.endsWith("#proof-required")) return "limit";
  if (status === 401 || status === 403) return "forbidden";
  if (status >= 500) return "server";
  if (error instanceof TypeError) return navigator.onLine ? "server" : "offline"; // fetch's
  return "error";
}

// A server that renders pages imports this file too, and has no elements.
export class TallyCheck extends (globalThis.HTMLElement ?? Object) {
  static formAssociated = true;
  static observedAttributes = ["endpoint", "form"];

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
  #due = null;      // and waits for the check: each is an object
  #passing = false; // or is ours
  #submitter = null;
  #told = false;    // by the browser, which form it is in
  #built;           // the parts are made; false: the element is in a page, and they are not
  #again = null;    // begins a submission again that has failed
  #wake = null;     // ends a wait
  #focused = false;
  #slow = 0;        // a timer
  #tick = 0;        // and another
  #frame = 0;       // in which progress was shown
  #long = false;    // the check has shown itself
  #left = Infinity; // the seconds that are shown
  #keys = [];       // of what was said last
  #offered = "";    // the key of what the button says
  #spoke = "";      // the language that was

  // React, Vue, Preact and Svelte assign what is "in" an element, and set attributes for the rest.
  // So each public name that is not a method can be written.
  get form() { return this.#form; }
  set form(id) { this.#reflect("form", id); }
  get endpoint() { return this.getAttribute("endpoint") ?? ""; }
  set endpoint(path) { this.#reflect("endpoint", path); }
  get auto() { return this.getAttribute("auto") ?? ""; }
  set auto(when) { this.#reflect("auto", when); }
  get cost() { return this.#number(this.getAttribute("cost"), 1); }
  set cost(cost) { this.#reflect("cost", cost); }
  // A server that renders <tally-check maxWork> writes it without the hyphen.
  get maxWork() { return this.#number(this.getAttribute("max-work") ?? this.attributes.maxwork?.value, 2**28); }
  set maxWork(work) {
    this.removeAttribute("maxwork");
    this.#reflect("max-work", work);
  }
  get disabled() { return this.hasAttribute("disabled"); }
  set disabled(off) { this.toggleAttribute("disabled", !!off); }

  #reflect(name, value) {
    if (value === null || value === undefined || value === "") this.removeAttribute(name);
    else this.setAttribute(name, value);
  }

  #number(text, fallback) {
    const number = parseFloat(text);
    return number > 0 ? number : fallback;
  }

  get #state() { return this.dataset.state; }
  get #fresh() { return this.#state === "done" && performance.now() < this.#until; }
  get #busy() { return this.#state === "working" || this.#state === "waiting"; }
  // In Safari before 16.4 no fieldset disables it.
  get #off() { return this.matches("[disabled], fieldset:disabled *"); }

  // #fault is the reason why this can never work, as far as that is known before anything is asked.
  get #fault() {
    if (!this.endpoint) return "setup";
    return origin === "null" && framed() ? "frame" : ""; // an opaque origin keeps nothing
  }

  connectedCallback() {
    addEventListener("pageshow", this);
    addEventListener("online", this);
    // What was assigned before this class was there hides its accessors.
    for (const name of ["form", "endpoint", "auto", "cost", "maxWork", "disabled"]) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#find();
    this.#dress();
    queueMicrotask(() => this.#resume());
    // What cannot work is told before the visitor has filled in the form.
    setTimeout(() => this.isConnected && !this.#off && this.#state === "idle" && this.#fault && this.verify(), GRACE);
    if (this.#built !== undefined) return; // it has been moved
    this.#built = false;
    // What is seen here was for browsers without scripts.
    if ([...this.childNodes].some((node) => node.nodeName !== "NOSCRIPT" && node.textContent.trim())) this.#build();
    this.#set("idle");
  }

  // #build fills the element before it has anything to say. Not at once: where a server has rendered
  // the page, React compares what it finds here, and renders all of it again if there is more.
  #build() {
    if (this.contains(this.#words)) return;
    if (!this.#built) {
      this.#built = true;
      this.#status.setAttribute("role", "status");
      this.#timer.setAttribute("role", "timer");
      this.#words.tabIndex = -1;
      this.#words.replaceChildren(this.#status, " ", this.#timer);
      this.#button.type = "button";
      this.#button.onclick = () => this.#press();
    }
    this.#mark(this.#bar, "working").setAttribute("aria-label", this.#text("working"));
    this.replaceChildren(this.#words, this.#button, this.#bar);
  }

  connectedMoveCallback() {}

  // #dress gives the element its style in a shadow root, into which no sheet of the page reaches: the
  // page's own rules for it, without another request, or else the file beside this one.
  #dress() {
    const root = this.getRootNode();
    if (!root.host || style(root) || root.querySelector("link[href*='tally.css']")) return;
    const rules = style(document);
    if (rules && root.adoptedStyleSheets) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(rules);
      root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
      return;
    }
    const href = import.meta.url.replace(/[^/]*$/, "tally.css");
    root.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
  }

  disconnectedCallback() {
    removeEventListener("pageshow", this);
    removeEventListener("online", this);
    // To move it is to take it out and put it in again: it goes on.
    queueMicrotask(() => {
      if (this.isConnected) return;
      if (this.#due && this.#form) lose(this.#form, this.#submitter);
      this.reset();
      this.#find();
    });
  }

  attributeChangedCallback(name, before, now) {
    if (before === now) return;
    if (name === "form") return this.#find();
    this.#until = 0; // another endpoint has other answers
    if (this.dataset.reason === "setup") this.reset();
  }

  formAssociatedCallback(form) {
    this.#told = true;
    this.#join(form);
  }

  // #find looks for the form where the browser does not tell: Safari before 16.4.
  #find() {
    if (this.#told) return;
    const id = this.getAttribute("form");
    const form = id === null ? this.closest("form") : this.getRootNode().getElementById?.(id);
    this.#join(form instanceof HTMLFormElement ? form : null);
  }

  #join(form) {
    const old = this.#form;
    if (form === old) return;
    this.#form = form;
    for (const type of ["submit", "focusin", "reset"]) {
      // Capturing, so that others see a submission once: when it is let go.
      old?.removeEventListener(type, this, true);
      form?.addEventListener(type, this, true);
    }
    old?.removeAttribute("aria-busy");
    if (this.#state === "working") form?.setAttribute("aria-busy", "true");
    if (this.#due && old) lose(old, this.#submitter);
  }

  // #resume goes on where an element of this form was taken out while it held a submission:
  // a script has brought the page up to date. Later it would be a surprise.
  #resume() {
    const { submitter, at } = lost.get(this.#form) ?? {};
    if (!at || !this.isConnected) return;
    lost.delete(this.#form);
    if (this.#due || this.#off || this.auto === "off") return; // it has only been moved
    const gone = submitter && submitter.form !== this.#form;
    if (!gone && Date.now() - at < SOON) return this.#submit(submitter);
    this.#again = () => this.#submit(submitter);
    this.#set("error", { reason: "error" });
    this.#button.hidden = !!gone;
  }

  handleEvent(event) {
    const { type, submitter, persisted } = event;
    // From the back/forward cache a page comes as it was when it was left.
    if (type === "pageshow") return persisted && this.reset();
    if (type === "online") return this.#online();
    if (type === "focusin") {
      this.#build(); // what a screen reader is to tell of has to be there before
      if (this.auto === "focus" && !this.#focused && !this.#fault) this.verify((this.#focused = true));
      return;
    }
    if (type === "reset") return setTimeout(() => event.defaultPrevented || this.reset());
    if (event.defaultPrevented || this.auto === "off" || this.#off) return;
    if (attribute("method", this.#form, submitter) === "dialog") return;
    if (this.#passing || !this.#held && this.#fresh) return this.#pass(event);
    event.preventDefault();
    event.stopImmediatePropagation();
    event.tally = this;
    if (this.#due) this.#submitter = submitter; // the last button that is pressed is meant
    if (!this.#held) this.#submit(submitter);
  }

  // #pass lets a submission go, and holds back the second click of a double click.
  // A listener that prevents the default sends by itself, and may do so again.
  #pass(event) {
    this.#held = this.#button.hidden = true;
    this.#passing = false;
    this.#due = null;
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
    const form = this.#form, due = this.#due = {};
    this.#held = true;
    this.#submitter = submitter;
    this.#again = () => this.#submit(this.#submitter);
    const proved = await this.verify();
    if (due !== this.#due) return; // it was ended
    if (!proved || form !== this.#form) return this.#give();
    // Browsers open windows only for some seconds after a click.
    const target = attribute("target", form, this.#submitter);
    if (target && !/^_(self|parent|top)$/i.test(target) && navigator.userActivation?.isActive === false) {
      this.#say("done");
      this.#offer("retry");
      return this.#give();
    }
    // Not in this task, which may be the one that handles the submit event.
    setTimeout(() => {
      if (due !== this.#due) return;
      this.#passing = true;
      send(form, this.#submitter?.form === form ? this.#submitter : null);
      if (this.#passing) this.#give(); // a field is not valid any more
    }, this.#long ? HEARD : 0);
  }

  // #give gives a submission up.
  #give() {
    this.#held = this.#passing = false;
    this.#due = null;
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
      // A form that a visitor has sent has time; a page that asks does not.
      const way = this.#held && turns ? await this.#wayOn(reason, wait, signal) : { reason, wait };
      if (signal.aborted) return false;
      if (way.reason) {
        this.#run = null;
        if (way.reason === "setup" || way.reason === "error") console.error(`Tallystick: ${error.message}`, this, error);
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

  async #prove(signal) {
    const fault = this.#fault;
    if (fault) throw Object.assign(new Error("<tally-check> needs an endpoint, the server's Challenge.Path"), { reason: fault });
    const { challenge } = this.dataset; // the page's, good for its first check
    delete this.dataset.challenge;
    return prove(this.endpoint, {
      signal,
      challenge,
      cost: this.cost,
      maxWork: this.maxWork,
      onagain: (reason) => {
        if (reason !== "price-risen") return;
        clearTimeout(this.#slow);
        this.#begin("risen");
      },
      onprogress: (done, total, left) => {
        if (this.#frame) return; // no visitor sees it
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
        const place = await ticket(this.endpoint, { signal, cost: this.cost }).catch(() => null);
        if (!place || signal.aborted || after && after < place.wait) break;
        if (!place.wait) return { open: true };
        if (turn && !place.carried) return { reason: keepless() };
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
    const { state, reason } = this.dataset;
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
    this.#give();
    clearTimeout(this.#slow);
    clearTimeout(this.#tick);
    this.#form?.removeAttribute("aria-busy");
    abort?.abort();
  }

  // #lang is the language of the page, as far as it has said, or else the browser's.
  get #lang() {
    const [lang] = (this.#said || navigator.language).toLowerCase().split("-");
    return /^[a-z]{2,3}$/.test(lang) ? lang : "en";
  }

  get #said() {
    for (let at = this, found; at; at = at.getRootNode().host) // no selector looks out of a shadow root
      if ((found = at.closest("[lang]"))) return found.lang;
  }

  // #speak fetches the texts of the page's language. What was said in English meanwhile is said once more.
  #speak() {
    load(this.#lang).then(() => {
      if (!this.#built || this.#spoke === known(this.#lang)) return;
      this.#mark(this.#bar, "working").setAttribute("aria-label", this.#text("working"));
      this.#say(...this.#keys);
      if (!this.#button.hidden) this.#offer(this.#offered);
    });
  }

  #text(key) { return this.getAttribute(`text-${key}`) ?? text(known(this.#lang), key); }

  #timed(key, words, seconds) {
    const lang = this.hasAttribute(`text-${key}`) ? this.#lang : known(this.#lang);
    return this.#text(key).replace("{}", () => words(lang, seconds));
  }

  // #mark says what language a text is of where the page's own is another one. Else a screen reader
  // reads it with the wrong voice, and from right to left its full stop is at the wrong end.
  #mark(node, key) {
    const lang = known(this.#lang), said = this.#said ?? "";
    if (lang === said.toLowerCase().split("-")[0]) ["lang", "dir"].forEach((name) => node.removeAttribute(name));
    else if (this.hasAttribute(`text-${key}`)) [node.lang, node.dir] = [said, getComputedStyle(this).direction];
    else [node.lang, node.dir] = [lang, direction(lang)];
    return node;
  }

  // #say changes what is read out, once, and #clock what only stands there. The first
  // time is read out too.
  #say(...keys) {
    this.#keys = keys;
    this.#spoke = known(this.#lang);
    const parts = keys.filter((key) => key && this.#text(key)).flatMap((key) => {
      const part = this.#mark(document.createElement("span"), key);
      part.textContent = this.#text(key);
      return [" ", part];
    });
    this.#status.replaceChildren(...parts.slice(1));
    this.#mark(this.#words, keys.find((key) => this.hasAttribute(`text-${key}`)));
  }

  #clock(words, key) {
    if (this.#timer.textContent === words) return;
    this.#mark(this.#timer, key);
    this.#timer.setAttribute("aria-live", this.#timer.textContent ? "off" : "polite");
    this.#timer.textContent = words;
  }

  #offer(key) {
    this.#offered = key;
    this.#button.textContent = this.#text(key);
    this.#mark(this.#button, key);
    this.#button.hidden = false;
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
    this.#clock(this.#timed("about", duration, seconds), "about");
    this.#offer("cancel");
  }

  #count(until, key, words, over) {
    const left = Math.ceil((until - Date.now()) / 1000); // a device that has slept has waited
    if (left <= 0) return over();
    this.#clock(this.#timed(key, words, left), key);
    this.#tick = setTimeout(() => this.#count(until, key, words, over), Math.min(1000, until - Date.now()));
  }

  // #set shows a state. A check that is quickly over is not worth showing at work.
  #set(state, { reason, wait, ...detail } = {}) {
    if (this.#busy) this.#long ||= state === "waiting" || !this.#bar.hidden;
    this.dataset.state = state;
    if (reason) this.dataset.reason = reason;
    else delete this.dataset.reason;
    this.#form?.[state === "working" ? "setAttribute" : "removeAttribute"]("aria-busy", "true");
    this.#speak();
    if (state !== "idle" || this.#text("idle")) this.#build();
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
      if (wait) this.#count(until, "left", duration, () => this.#wake());
      return;
    }
    const fault = this.#fault;
    this.#say(reason, (this.#held || !fault) && "unsent");
    const retry = () => {
      if (fault) return; // once more is as much in vain
      this.#clock("");
      this.#offer("retry");
    };
    if (wait) this.#count(until, "later", inTime, retry);
    else retry();
    if (this.#held) this.#guide();
  }

  // #guide moves the focus from the button that has failed to what is next. It leaves
  // a visitor alone that has gone elsewhere.
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
globalThis.customElements?.get("tally-check") ?? globalThis.customElements?.define("tally-check", TallyCheck);
