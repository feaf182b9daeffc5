// The words of <tally-check>, by language. The attribute text-working replaces working,
// and so on. {} is a time: "5 minutes" in left and about, "in 5 minutes" in later.

export const TEXTS = {
  en: {
    idle: "",
    working: "Checking…",
    risen: "Others on your network are being checked too. Once more…",
    about: "About {} left.",
    done: "Checked.",
    sending: "Sending…",
    // What stands in the way, and then what becomes of the form: one of the next three.
    limit: "Too many requests.",
    dear: "The check would be too much work for this browser.",
    slow: "This device is too slow for the check.",
    offline: "You are offline.",
    server: "The site does not answer.",
    forbidden: "The site refuses this request.",
    cookies: "This site needs cookies. Please allow them.",
    setup: "This site is set up wrongly. Please tell its owner.",
    error: "The check failed.",
    wait: "The form waits here and is sent by itself.",
    unsent: "Nothing was sent.",
    later: "Try again {}.",
    left: "{} left.",
    retry: "Send again",
    cancel: "Cancel",
  },
  de: {
    idle: "",
    working: "Prüfung läuft…",
    risen: "Andere in Ihrem Netz werden auch geprüft. Noch einmal…",
    about: "Noch etwa {}.",
    done: "Geprüft.",
    sending: "Wird gesendet…",
    limit: "Zu viele Anfragen.",
    dear: "Die Prüfung wäre zu viel Arbeit für diesen Browser.",
    slow: "Dieses Gerät ist zu langsam für die Prüfung.",
    offline: "Keine Verbindung zum Internet.",
    server: "Die Website antwortet nicht.",
    forbidden: "Die Website lehnt diese Anfrage ab.",
    cookies: "Diese Website braucht Cookies. Bitte erlauben.",
    setup: "Diese Website ist falsch eingerichtet. Bitte sagen Sie es dem Betreiber.",
    error: "Prüfung gescheitert.",
    wait: "Das Formular wartet hier und wird von selbst gesendet.",
    unsent: "Nichts gesendet.",
    later: "Neuer Versuch {}.",
    left: "Noch {}.",
    retry: "Erneut senden",
    cancel: "Abbrechen",
  },
  fr: {
    idle: "",
    working: "Vérification…",
    risen: "D’autres sur votre réseau sont aussi vérifiés. Encore une fois…",
    about: "Encore {} environ.",
    done: "Vérifié.",
    sending: "Envoi…",
    limit: "Trop de demandes.",
    dear: "La vérification demanderait trop de travail à ce navigateur.",
    slow: "Cet appareil est trop lent pour la vérification.",
    offline: "Vous êtes hors ligne.",
    server: "Le site ne répond pas.",
    forbidden: "Le site refuse cette demande.",
    cookies: "Ce site a besoin de cookies. Veuillez les autoriser.",
    setup: "Ce site est mal configuré. Veuillez prévenir son responsable.",
    error: "Vérification échouée.",
    wait: "Le formulaire attend ici et partira de lui-même.",
    unsent: "Rien n’a été envoyé.",
    later: "Réessayez {}.",
    left: "Encore {}.",
    retry: "Renvoyer",
    cancel: "Annuler",
  },
};

// known returns a language if all texts are there in it, or English.
export const known = (lang) => lang in TEXTS ? lang : "en";

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
