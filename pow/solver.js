// Tallystick's solver for browsers: a module for pages, and its own worker. It
// needs only the language, so it runs under "default-src 'self'" and on plain
// http. Package pow has the puzzle and the wire.

const NAME = "tallystick-solver";
const HEADER = 38, TARGET = 6, MAC = 16;
const CHUNK = 128;   // candidates between two looks at the clock, digests in flight
const SLICE = 8;     // milliseconds at a stretch: the page stays at 60 frames a second
const SLOW = 200;    // candidates a millisecond; below it there is no JIT, or a very old device
const SMALL = 2**15; // candidates below which starting workers takes longer than the search
const FIRST = 1500;  // milliseconds after which the rate is worth something
const BAD = 5000;    // milliseconds at least that may be slow: workers start, and a page loads
const WINDOW = 3e4;  // milliseconds over which the rate is taken, at least half of them
const PAUSE = 1000;  // milliseconds without news after which a device has slept, and the rate is void
const LUCK = 1.3;    // standard deviations that nine of ten devices cannot beat
const SILENCE = 2e3; // milliseconds without a message from any worker, after which the page's thread works too

let patience = SILENCE; // for silent workers: 0, once they have been silent

// The constants of SHA-256: fractional parts of the roots of the first primes.
const K = new Int32Array(64), IV = new Int32Array(8);
for (let p = 2, n = 0; n < 64; p++) {
  let d = 2;
  while (p % d) d++;
  if (d < p) continue;
  if (n < 8) IV[n] = Math.sqrt(p) % 1 * 2**32;
  K[n++] = Math.cbrt(p) % 1 * 2**32;
}

// The rotations are written with | because that is how engines recognise them;
// with ^ throughout, which gives the same bits, this runs at half the speed.
const s0 = (x) => (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
const s1 = (x) => (x >>> 17 | x << 15) ^ (x >>> 19 | x << 13) ^ x >>> 10;

// The block, its schedule, and the part of the schedule that is the same for
// all candidates. They belong to the running call: nothing in them outlives an
// await.
const w = new Int32Array(64), fixed = new Int32Array(32);

// rounds runs the first rounds of the compression function over w.
function rounds(until) {
  let [a, b, c, d, e, f, g, h] = IV;
  for (let t = 0; t < until; t++) {
    const x = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[t] + w[t] | 0;
    const y = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
    h = g; g = f; f = e; e = d + x | 0; d = c; c = b; b = a; a = x + y | 0;
  }
  return [a, b, c, d, e, f, g, h];
}

// digest hashes the one block whose words are w[0] to w[15].
function digest() {
  for (let t = 16; t < 64; t++) w[t] = s1(w[t - 2]) + w[t - 7] + s0(w[t - 15]) + w[t - 16];
  return rounds(64).map((x, i) => x + IV[i] | 0);
}

// search tries the candidates in [from, to) and returns the one that fits, or -1.
// The message of 40 bytes is one block, and the candidate is its word 9. So the
// nine rounds before it and much of the schedule are computed once. The last
// round is left out too: word 1 of the hash is known without it, and rules out
// all but one candidate in 65536.
function search({ seed, i, hi, lo }, from, to) {
  w.fill(0);
  w.set(seed);
  w[8] = i;
  w[10] = 1 << 31;
  w[15] = 320;
  const [m0, m1, m2, m3, m4, m5, m6, m7] = rounds(9);
  // Words that depend on the candidate are zero here, and so add nothing.
  for (let t = 16; t < 32; t++) {
    fixed[t] = s1(w[t - 2]) + w[t - 7] + s0(w[t - 15]) + w[t - 16];
    if (t === 17 || t === 19 || t === 21) w[t] = fixed[t];
  }
  const p = fixed, iv1 = IV[1];
  for (let n = from; n < to; n++) {
    w[9] = n;
    w[16] = p[16] + n;
    w[18] = p[18] + s1(w[16]);
    w[20] = p[20] + s1(w[18]);
    w[22] = p[22] + s1(w[20]);
    w[23] = p[23] + w[16];
    w[24] = p[24] + s1(w[22]) + s0(n);
    w[25] = p[25] + s1(w[23]) + w[18] + n;
    w[26] = p[26] + s1(w[24]);
    w[27] = p[27] + s1(w[25]) + w[20];
    w[28] = p[28] + s1(w[26]);
    w[29] = p[29] + s1(w[27]) + w[22];
    w[30] = p[30] + s1(w[28]) + w[23];
    w[31] = p[31] + s1(w[29]) + w[24] + s0(w[16]);
    for (let t = 32; t < 63; t++) w[t] = s1(w[t - 2]) + w[t - 7] + s0(w[t - 15]) + w[t - 16];
    // Without | 0 engines take them for floating-point numbers: a quarter of the speed.
    let a = m0 | 0, b = m1 | 0, c = m2 | 0, d = m3 | 0, e = m4 | 0, f = m5 | 0, g = m6 | 0, h = m7 | 0;
    for (let t = 9; t < 63; t++) {
      const x = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[t] + w[t] | 0;
      const y = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
      h = g; g = f; f = e; e = d + x | 0; d = c; c = b; b = a; a = x + y | 0;
    }
    if ((a + iv1 | 0) >>> 16 === lo && digest()[0] === hi) return n;
  }
  return -1;
}

// searchNative is search by the browser's own SHA-256. A call costs far more than
// the hash, but needs no JIT.
async function searchNative({ seed, i, hi, lo }, from, to) {
  const sums = [];
  for (let n = from; n < to; n++) {
    const message = new DataView(new ArrayBuffer(40));
    [...seed, i, n].forEach((word, at) => message.setInt32(4 * at, word));
    sums.push(crypto.subtle.digest("SHA-256", message));
  }
  const found = (await Promise.all(sums)).map((sum) => new DataView(sum))
    .findIndex((sum) => sum.getInt32(0) === hi && sum.getUint16(4) === lo);
  return found < 0 ? found : from + found;
}

// crunch answers one puzzle, or returns -1. It calls tick every few milliseconds.
async function crunch(job, tick) {
  const { span } = job, rates = [0, 0]; // of search and searchNative
  let from = 0, n = -1;
  for (let turn = 0; n < 0 && from < span; turn++) {
    let native = rates[1] > rates[0];
    // If search is slow, every fourth turn tries the other one. If only the JIT was
    // late, search comes back when it is there.
    const trial = turn % 4 === 3 && rates[0] < SLOW && globalThis.crypto?.subtle;
    if (trial) native = !native;
    const start = performance.now(), first = from;
    let now;
    do {
      const to = Math.min(from + CHUNK, span);
      n = native ? await searchNative(job, from, to) : search(job, from, to);
      from = to;
      now = performance.now();
    } while (n < 0 && from < span && now - start < SLICE && !trial);
    rates[+native] = (from - first) / (now - start);
    await tick(from);
  }
  return n;
}

const refusal = (reason) => Object.assign(new Error(`Tallystick: ${reason}`), { reason });

// read reads a challenge, or the value of a Tallystick-Challenge field: the first
// list member that this version can read.
function read(value) {
  for (const [text] of value.slice(0, 4096).matchAll(/[\w-]{72,}(?![^;,\s])/g)) {
    if (text.length % 4) continue;
    const raw = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    const view = new DataView(Uint8Array.from(raw, (c) => c.charCodeAt()).buffer);
    const k = view.getUint8(3), span = view.getUint32(10);
    if (view.getUint8(0) !== 1 || view.getUint8(2) !== 1 || k > 16 || !k !== !span) continue;
    if (raw.length === HEADER + k * TARGET + MAC) return { text, view, k, span };
  }
  throw refusal("malformed");
}

// puzzles returns the puzzles of a challenge, by number. Their seed is the hash
// of its header, which is one block too.
function puzzles({ view, k, span }) {
  w.fill(0);
  for (let t = 0; t < 10; t++) w[t] = view.getInt32(4 * t);
  w[9] = w[9] & -1 << 16 | 1 << 15;
  w[15] = 8 * HEADER;
  const seed = Int32Array.from(digest()), all = new Map();
  for (let i = 0; i < k; i++) {
    const at = HEADER + TARGET * i;
    all.set(i, { seed, i, span, hi: view.getInt32(at), lo: view.getUint16(at + 4) });
  }
  return all;
}

// enlist starts a worker. It may report that it runs, or fail, before a listener is set.
const enlist = () => {
  const worker = new Worker(import.meta.url, { type: "module", name: NAME });
  worker.onmessage = () => { worker.ready = true; };
  worker.onerror = (event) => { event.preventDefault(); worker.failed = true; };
  return worker;
};

// solve returns a promise of the proof for a challenge, or for a promise of one: then the first
// worker starts meanwhile. Its errors are the signal's, or have a reason: malformed,
// too-much-work, unsolvable, too-slow (this device will hardly be in time), or expired (the proof
// would no longer be accepted). onprogress gets the number of candidates ruled out, of all
// candidates, and, once known, the milliseconds left. workers: 0 keeps all work on the caller's
// thread, in slices that leave a page responsive; 4 leave a phone cores for other work.
export const solve = async (challenge, options) => {
  const { signal } = options ?? {};
  signal?.throwIfAborted();
  let first;
  try {
    if (challenge.then && options?.workers !== 0) first = enlist();
  } catch {} // as below
  let stop;
  const stopped = new Promise((_, reject) => signal?.addEventListener("abort", stop = () => reject(signal.reason)));
  try {
    return await answer(await Promise.race([challenge, stopped]), first, options);
  } finally {
    signal?.removeEventListener("abort", stop);
    first?.terminate();
  }
};

const answer = (challenge, first, { signal, onprogress, maxWork = 2**28, workers = 4 } = {}) => new Promise((resolve, reject) => {
  signal?.throwIfAborted();
  const c = read(challenge), { k, span } = c, todo = puzzles(c);
  if (k * span / 2 > maxWork) throw refusal("too-much-work");

  const answers = [], done = new Array(k).fill(0), known = [], crew = [];
  const ttl = 1000 * c.view.getUint16(8), start = performance.now();
  let mark = start, last = start, tried = 0; // the rate is tried since mark
  // Messages, unlike timers, are not slowed down when they follow each other.
  const { port1, port2 } = new MessageChannel();
  let over = false, blocked = false, queue = [...todo.values()], watchdog = 0;
  let spoken = false, own = null; // whether a worker has sent a message, and the puzzle of this thread

  const end = (error) => {
    over = true;
    clearTimeout(expiry);
    clearTimeout(watchdog);
    signal?.removeEventListener("abort", cancel);
    crew.forEach((worker) => worker.terminate());
    port1.close();
    error ? reject(error) : resolve(`${c.text}~${answers.join(".")}`);
  };
  const cancel = () => end(signal.reason);
  // measure notes that the candidates of a puzzle below from were tried. It returns
  // the rate per millisecond, or 0 while that is unknown.
  const measure = (i, from) => {
    const now = performance.now();
    if (now - last > PAUSE) [mark, tried] = [now, 0];
    if (now - mark > WINDOW) [mark, tried] = [(mark + now) / 2, tried / 2];
    tried += Math.max(0, from - (known[i] ?? 0));
    last = now;
    known[i] = from;
    return now - mark < FIRST ? 0 : tried / (now - mark);
  };
  // forecast returns the milliseconds left at a rate, or ends a solve that will be
  // late. An answer is anywhere in the rest of its puzzle, at even odds.
  const forecast = (rate) => {
    const rest = [...todo.keys()].map((i) => span - done[i]);
    const mean = rest.reduce((a, b) => a + b, 0) / 2;
    const deviation = Math.sqrt(rest.reduce((a, b) => a + b * b, 0) / 12);
    const late = (mean - LUCK * deviation) / rate > start + ttl - last;
    if (late && last - mark > Math.max(BAD, ttl / 20)) end(refusal("too-slow"));
    // The last puzzles have one worker each, while the rate is of all workers, and end
    // with the last of them.
    const n = rest.length, hands = spoken ? crew.length : 1, tail = n <= hands ? 2 * hands / (n + 1) : 1;
    return mean * tail / rate;
  };
  const advance = (i, from, tries = from) => {
    done[i] = Math.max(done[i], from); // a puzzle that was begun again falls back
    const rate = measure(i, tries), left = rate > 0 ? forecast(rate) : undefined;
    if (!over) onprogress?.(done.reduce((a, b) => a + b), k * span, left);
  };
  const found = (i, n) => {
    if (n < 0) return end(refusal("unsolvable"));
    answers[i] = n;
    todo.delete(i);
    advance(i, span, n);
    if (!todo.size) end();
  };

  // byOneself lets this thread work while no worker sends a message.
  const byOneself = async () => {
    while (!over && !own && !spoken && queue.length) {
      own = queue.shift();
      const { i } = own, n = await crunch(own, (from) => new Promise((next) => {
        advance(i, from);
        port1.onmessage = next;
        port2.postMessage(0);
      }));
      own = null;
      found(i, n);
    }
  };
  // failed takes over from workers that are blocked: by a content security policy, Trusted Types, a
  // failed download, another origin, an old browser.
  const failed = () => {
    blocked = true;
    for (const worker of crew) {
      worker.onmessage = null;
      worker.terminate();
    }
    spoken = false;
    queue = [...todo.values()].filter((job) => job !== own);
    byOneself();
  };

  signal?.addEventListener("abort", cancel);
  const expiry = setTimeout(() => end(refusal("expired")), ttl);
  if (!k) return end();
  const count = k * span > SMALL ? Math.min(workers, globalThis.navigator?.hardwareConcurrency || 2, k) : 0;
  try {
    while (crew.length < count && !blocked) {
      const worker = !crew.length && first || enlist();
      crew.push(worker);
      worker.onerror = (event) => { event.preventDefault(); failed(); };
      // A worker asks for its first puzzle: one that never starts holds none up.
      worker.onmessage = ({ data: { i, from, n } }) => {
        if (over) return;
        spoken = true;
        patience = SILENCE;
        if (from) return advance(i, from);
        if (n !== undefined) found(i, n);
        if (queue.length) worker.postMessage(queue.shift());
      };
      if (worker.failed) failed();
      else if (worker.ready) worker.onmessage({ data: {} });
    }
  } catch {}
  if (!crew.length) return byOneself();
  // An extension's replacement of Worker may neither start nor fail. Workers that are only
  // late share the rest.
  watchdog = setTimeout(() => {
    if (spoken || over || blocked) return;
    patience = 0;
    byOneself();
  }, patience);
});

// The worker's side. The name tells our workers from a page's own worker, which
// may import this module too.
if (globalThis.WorkerGlobalScope && globalThis.name === NAME) {
  onmessage = async ({ data: job }) => {
    const { i } = job;
    postMessage({ i, n: await crunch(job, (from) => postMessage({ i, from })) });
  };
  postMessage({});
}
