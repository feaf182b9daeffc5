// The words of <tally-check>. Each other language than English is a file of its own, such as texts-de.js: a page loads
// one of them at most. The attribute text-working replaces working,
// and so on. {} is a time: "5 minutes" in left and about, "in 5 minutes" in later.

// Made of words.txt by go generate: change that.
const TEXTS = {
  en: {
    idle: "",
    working: "Checking…",
    risen: "Others on your network are being checked too. One more check…",
    about: "About {} left.",
    done: "Checked.",
    sending: "Sending…",
    limit: "Too many requests.",
    dear: "The check would be too much work for this browser.",
    slow: "This device is too slow for the check.",
    offline: "You are offline.",
    server: "The site does not answer.",
    forbidden: "The site refuses this request.",
    cookies: "This site needs cookies. Please allow them.",
    frame: "This frame keeps no cookies. Please open the page in its own window.",
    setup: "This site is set up wrongly. Please tell its owner.",
    error: "The check failed.",
    wait: "The form waits here and is sent by itself.",
    unsent: "Nothing was sent.",
    later: "Try again {}.",
    left: "{} left.",
    retry: "Send again",
    cancel: "Cancel",
  },
};

const OTHERS = ["de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "he", "ru", "ko", "tr", "uk"], LEFTWARDS = ["he"];
// So far.

const coming = {}; // promises, by language

// named returns the name that a language has here: Hebrew was iw until 1989.
const named = (lang) => lang === "iw" ? "he" : lang;

// load fetches the texts of a language, if there are any, from the file beside this one.
export const load = (lang, name = named(lang)) => coming[name] ??= OTHERS.includes(name)
  ? import(`./texts-${name}.js`).then((file) => { TEXTS[name] = file.default; }, () => {})
  : Promise.resolve();

// known returns a language if its texts are here, or English.
export const known = (lang) => TEXTS[named(lang)] ? named(lang) : "en";

// direction returns the one in which a language that is known is written.
export const direction = (lang) => LEFTWARDS.includes(lang) ? "rtl" : "ltr";

// text returns a text in a language that is known.
export const text = (lang, key) => TEXTS[lang][key];

// unit returns a time in the largest unit that does not mislead, rounded up.
function unit(seconds) {
  const [size, name] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([size]) => seconds >= 2 * size || size < 2);
  return [Math.ceil(seconds / size), name];
}

// inTime words when: "in 5 minutes".
export const inTime = (lang, seconds) => new Intl.RelativeTimeFormat(lang).format(...unit(seconds));

// duration words how long: "5 minutes".
export function duration(lang, seconds) {
  const [n, name] = unit(seconds);
  return new Intl.NumberFormat(lang, { style: "unit", unit: name, unitDisplay: "long" }).format(n);
}

// coarse rounds an estimate in seconds up to what it is worth. Of minutes there are only
// whole ones in words.
export const coarse = (seconds) => {
  const step = seconds > 20 ? 10 : 5;
  return step * Math.ceil(seconds / step);
};
