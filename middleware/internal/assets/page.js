// The page in place of one that was asked for: it has the element beside it do the work,
// and opens that one, at the same URL and in the same place of the history.

const RETURNS = 4;    // each after the other: more would go on for ever
const SPAN = 3e4;     // milliseconds after a return in which a refusal is one more
const PATIENCE = 3e4; // milliseconds for which this page waits for another one
const FRESH = 5e3;    // milliseconds for which the challenge that came with this page is used

const form = document.querySelector("form"), check = form.querySelector("tally-check");
form.requestSubmit ??= () => { // Safari before 16 has none
  const button = Object.assign(document.createElement("button"), { hidden: true });
  form.append(button);
  button.click();
  button.remove();
};
const key = `tallystick ${check.getAttribute("endpoint")}`, { href } = location;

// returns is how often this tab has come back to a page of ours by itself, to this URL or to wherever a handler has
// redirected it: too often where there is nowhere to note that, since the browser keeps no cookies then.
let returns = 0;
try {
  const [url, at, n] = JSON.parse(sessionStorage.getItem(key)) ?? [];
  const [{ type }] = performance.getEntriesByType("navigation");
  if ((url === href || type === "reload") && Date.now() - at < SPAN) returns = n;
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
const heading = document.querySelector("h1"), titles = [heading.textContent, heading.dataset.else];

// promise says whether the page is going to open, and how. Nothing has said so before: without this script it is not so.
function promise(opens) {
  const title = titles[+!opens];
  document.title = document.title.replace(heading.textContent, title);
  heading.textContent = title;
  intro.hidden = !opens;
}

// time hides how long it takes on a phone, once this device knows how long it takes itself.
function time() {
  const takes = intro.querySelector("span");
  if (takes) takes.style.visibility = check.querySelector("[role=timer]").textContent ? "hidden" : "";
}

// begin has the element work. The challenge of this page is for a browser that has bought nothing
// since it asked for the page, as another page of this site may have done.
function begin() {
  if (returns || performance.now() > FRESH || localStorage.getItem(key) > performance.timeOrigin) delete check.dataset.challenge;
  form.requestSubmit();
}

// open begins. Of several pages of this site one works at a time: what it buys opens the
// others too.
async function open() {
  promise(true);
  check.addEventListener("tally-progress", time);
  const ended = new Promise((end) => check.addEventListener("tally-state", ({ detail: { state } }) => {
    if (state !== "working" && state !== "done") end();
    promise(state !== "error");
    intro.hidden ||= state === "idle"; // the visitor has cancelled it
    time();
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
  promise(stuck.hidden = false);
  form.hidden = true;
} else if (check.verify) { // else its script has not come
  open();
}
