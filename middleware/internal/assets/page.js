// The page in place of one that was asked for: it has the element beside it do the work,
// and opens that one, at the same URL and in the same place of the history.

const RETURNS = 4;    // to one URL, each after the other: more would go on for ever
const SPAN = 3e4;     // milliseconds after a return in which a refusal is one more
const PATIENCE = 3e4; // milliseconds for which this page waits for another one
const FRESH = 5e3;    // milliseconds for which the challenge that came with this page is used

const form = document.querySelector("form"), check = form.querySelector("tally-check");
const key = `tallystick ${check.getAttribute("endpoint")}`, { href } = location;

// returns is how often this tab has come back to this URL: too often where there is nowhere to
// note that, since the browser keeps no cookies then.
let returns = 0;
try {
  const [url, at, n] = JSON.parse(sessionStorage.getItem(key)) ?? [];
  if (url === href && Date.now() - at < SPAN) returns = n;
} catch {
  returns = RETURNS;
}

// load opens the page that was asked for. A reload would go where this page was scrolled to
// and not to the fragment, and a URL that differs in that alone is not loaded.
function load(count) {
  try {
    sessionStorage.setItem(key, JSON.stringify([href, Date.now(), count]));
    if (count) localStorage.setItem(key, Date.now());
  } catch { /* see above */ }
  if (!location.hash) return location.reload();
  history.replaceState(null, "", href.replace("#", "?#"));
  location.replace(href);
}

const { previousElementSibling: intro, nextElementSibling: stuck } = form;

// begin has the element work. The challenge of this page is for a browser that has bought nothing
// since it asked for the page, as another page of this site may have done.
function begin() {
  if (returns || performance.now() > FRESH || localStorage.getItem(key) > performance.timeOrigin) delete check.dataset.challenge;
  form.requestSubmit();
}

// open begins. Of several pages of this site one works at a time: what it buys opens the
// others too.
async function open() {
  const ended = new Promise((end) => check.addEventListener("tally-state", ({ detail: { state } }) => {
    if (state !== "working" && state !== "done") end();
    intro.hidden = stuck.nextElementSibling.hidden = state === "error"; // what the page says is not so then
  }));
  try {
    await navigator.locks.request(key, { signal: AbortSignal.timeout(PATIENCE) }, () => {
      begin();
      return ended;
    });
  } catch { // there are no locks without TLS, or the other page has fallen asleep
    begin();
  }
}

// The element lets this event pass when the work is done.
form.addEventListener("submit", (event) => {
  event.preventDefault();
  load(returns + 1);
});

// A link to a page's own URL would lose its fragment.
document.querySelector("a").addEventListener("click", (event) => {
  event.preventDefault();
  load(0);
});

// From the back/forward cache this page comes as it was when it was left.
addEventListener("pageshow", ({ persisted }) => persisted && load(0));

if (returns >= RETURNS) {
  stuck.hidden = false;
  for (const part of [intro, form, stuck.nextElementSibling]) part.hidden = true;
} else if (check.verify) { // else its script has not come
  open();
}
