// Tallystick's protocol in the browser. docs/forms.md has what scripts may import.

import { solve } from "./solver.js";

const TOKEN = "Tallystick-Token", PROOF = "Tallystick-Proof";
const TRIES = 3; // for one request: a challenge may expire, a price may have risen

// Proofs without a verdict, and what they are for: by endpoint, or by method and place.
const held = {};

// take takes what is held, until its challenge expires.
function take(key) {
  const { [key]: found } = held;
  delete held[key];
  return found?.until > Date.now() ? found : undefined;
}

// pay solves a challenge. The seconds that it lives are bytes 8 and 9 of its proof.
async function pay(challenge, options) {
  const asked = Date.now(), proof = await solve(challenge, options), head = bytes(proof.slice(0, 16));
  return { proof, until: asked + 1000 * (256 * head.charCodeAt(8) + head.charCodeAt(9)) };
}

// showing returns what is answered to a proof. One is held if its answer is lost, or is a server's failure: it was not
// looked at, or it buys the same once more, or the next answer refuses it and has another challenge.
async function showing(paid, key, answer) {
  let response;
  try {
    return response = await answer;
  } finally {
    if (paid && !(response?.status < 500)) held[key] = paid;
  }
}

const bytes = (text) => atob(text.replaceAll("-", "+").replaceAll("_", "/"));

// A page of another origin may not see the field, so the body has it too.
async function challengeOf(response) {
  if (response.status !== 429 && response.status !== 403) return null;
  return response.headers.get("Tallystick-Challenge") ?? (await response.clone().json().catch(() => null))?.challenge;
}

// ok returns what an endpoint has answered, or throws.
async function ok(response) {
  if (response.ok) return response.json();
  const { status, headers, url } = response, after = headers.get("Retry-After") ?? "";
  // Ours is a number; a proxy before it may write a date.
  const wait = /\D/.test(after) ? Math.ceil((Date.parse(after) - Date.now()) / 1000) : +after;
  throw Object.assign(new Error(url), { status, wait: wait > 0 ? wait : 0, terms: await response.json().catch(() => null) });
}

const ask = async (endpoint, cost, init) => ok(await fetch(`${endpoint}challenge?cost=${cost}`, init));

// ticket takes a place in the waiting room, or keeps the one there is. It throws where
// waiting is no way in.
export const ticket = async (endpoint, { signal, cost = 1 } = {}) => ok(await fetch(`${endpoint}ticket?cost=${cost}`, { signal }));

// prove asks and, if work is needed, solves and redeems, so that a cookie carries what
// was bought. It returns what the server has said. A browser that keeps no cookies
// is told after one purchase, by the reason no-cookies: the next would be lost as well.
// The reason setup: instances disagree about secrets or clocks.
// (navigator.cookieEnabled does not know of Partitioned ones, of proxies and of add-ons.)
// A challenge that is at hand saves the first request. It may be old: then it is refused.
// What has failed for lack of an answer goes on, when it is called again, with the proof that there is.
export async function prove(endpoint, { signal, cost = 1, onagain, challenge, ...options } = {}) {
  const work = (on) => pay(on, { signal, ...options });
  let tries = TRIES, setup, paid = take(endpoint), terms = paid?.terms ?? (challenge && { needed: true, challenge });
  if (!terms) {
    const asked = ask(endpoint, cost, { signal });
    paid = work(asked.then((t) => t.needed === false ? Promise.reject(t) : t.challenge));
    paid.catch(() => {}); // it is awaited below, or there is nothing to do
    terms = await asked;
  }
  while (terms.needed !== false) { // a refusal does not say
    try {
      paid = { ...await (paid ?? work(terms.challenge)), terms };
      // Browsers would send the proof on to wherever they are redirected.
      const init = { method: "POST", headers: { [PROOF]: paid.proof }, redirect: "error", signal };
      const bought = await ok(await showing(paid, endpoint, fetch(`${endpoint}redeem`, init)));
      // Where a cookie has come with the proof, the browser keeps them. Instances that disagree
      // about proofs disagree about cookies too.
      const now = bought.carried && !setup ? {} : await ask(endpoint, cost, { signal }).catch(() => ({}));
      if (now.needed && !now.carried) throw Object.assign(new Error("Tallystick"), { reason: now.reason ? "setup" : "no-cookies" });
      return { ...terms, ...bought };
    } catch (error) {
      paid = null;
      setup ||= /^(secret|clock)-/.test(error.terms?.reason);
      if (!--tries && setup) error.reason = "setup";
      if (!tries || error.status !== 403 && error.reason !== "expired") throw error;
      // Behind a balancer the instance that has refused may ask for more than others.
      const { challenge, work, ttl, reason } = error.terms ?? error;
      terms = challenge ? { challenge, work, ttl } : await ask(endpoint, cost, { signal });
      onagain?.(reason);
    }
  }
  return terms;
}

// The newest tokens, by origin and then by policy and whose tally it is.
const tokens = {};

// keep keeps a token, and the last four of its policy: the server looks at no more.
function keep(origin, token) {
  const { aud, fam, sub } = JSON.parse(bytes(token.split(".")[1]));
  const kept = tokens[origin] ??= new Map(), key = `${aud} `;
  kept.delete(key + (fam ?? sub));
  kept.set(key + (fam ?? sub), token);
  const [oldest, ...rest] = [...kept.keys()].filter((other) => other.startsWith(key));
  if (rest.length > 3) kept.delete(oldest);
}

// The purchase under way, by origin: of many requests refused at once one buys,
// and the others try what it has bought.
const turns = {};

// tallyFetch is fetch, but echoes tokens, and where a refusal offers a challenge it
// solves it and sends the request again. A body that is a stream is sent once. If the server fails to answer a proof,
// the caller's next request of this method and place shows it.
// Browsers send fields along with a redirect, wherever it leads. So redirects of another
// origin are an error with the reason "redirected", and redirects of the page's own may not
// leave it while a field goes along. A redirect mode in init is obeyed as it stands.
export async function tallyFetch(input, init = {}, { header, ...options } = {}) {
  const request = new Request(input, init), { origin, pathname } = new URL(request.url);
  const { method, signal, referrer, referrerPolicy } = request, key = `${method} ${origin}${pathname}`;
  const stream = init.body instanceof ReadableStream;
  const home = origin === globalThis.origin; // location has none in a frame without a URL, Node neither
  const byField = header ?? (!home && request.credentials !== "include");
  // Without CORS browsers send no field, and permit no other mode.
  const wary = !init.redirect && request.redirect === "follow" && request.mode === "cors";

  const send = async (paid = take(key)) => {
    const proof = paid?.proof;
    const headers = new Headers(request.headers);
    if (byField && tokens[origin]) headers.set(TOKEN, [...tokens[origin].values()].join());
    if (proof) headers.set(PROOF, proof);
    // What is not said here once more is lost with the first of these.
    const again = { headers, referrer, referrerPolicy };
    // A stored response has an older token.
    if (byField && request.cache === "default") again.cache = "no-cache";
    // From the first request on: one that works until there is a token helps no visitor.
    if (wary && !home) again.redirect = "manual"; // unlike "error", this says why
    if (wary && home && (byField || proof)) {
      again.mode = "same-origin";
      // By the Fetch standard a page without referrers would now send Origin: null.
      again.referrerPolicy ||= "same-origin";
    }
    // A request is good for once, and its copy too.
    const response = await showing(paid, key, fetch(stream ? request : request.clone(), again));
    if (wary && response.type === "opaqueredirect") {
      throw Object.assign(new TypeError(`Tallystick: ${request.url} redirects`), { reason: "redirected" });
    }
    for (const token of response.headers.get(TOKEN)?.split(/,\s*/) ?? []) {
      try { keep(new URL(response.url).origin, token); } catch { /* it is none */ }
    }
    return response;
  };
  const answer = async (response) => {
    for (let tries = TRIES, challenge; tries-- && (challenge = await challengeOf(response));) {
      let paid;
      try {
        paid = await pay(challenge, { signal, ...options });
      } catch (error) {
        if (!error.reason) throw error; // the signal's
        if (error.reason !== "expired") break;
      }
      response = await send(paid);
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
