// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// The words of the page that keeps a form, by language: those that the element beside it
// speaks too. A %s is what the code puts in.
type words struct {
	language string
	title    string
	many     string // the cause: a limit
	check    string // the cause: a proof
	setup    string // the cause: a site whose instances disagree
	kept     string
	goBack   string
	script   string // nothing else helps
	wait     string // %s: a time
	again    string // the label of a secret, %s: what it is
	name     string // one whose label nobody knows, %s: the name of its field
	send     string
	back     string
	units    [4][2]string // day, hour, minute, second: one, and several
	secrets  [numSecrets]string
	why      [numWhy]string
}

// A why is why a form cannot be kept.
type why uint8

const (
	isKept why = iota
	whyKind
	whyLong
	whyStrange
	numWhy
)

// A secretKind is what a secret is, as far as its name says.
type secretKind uint8

const (
	notSecret secretKind = iota
	password
	oneTimeCode
	cardCode
	cardNumber
	pin
	otherSecret // whose name is all that people can be told
	numSecrets
)

// speech are the languages. The first is for everybody else.
var speech = [...]words{
	{
		language: "en",
		title:    "Not sent yet",
		many:     "There are too many requests from your network at the moment.",
		check:    "This form needs a short check before it is sent.",
		setup:    "This site is set up wrongly. Please tell its owner.",
		kept:     "What you have written is kept in this page.",
		goBack:   "Please go back, where your browser has kept it, and send it again.",
		script:   "The check needs JavaScript.",
		wait:     "Try again in %s.",
		again:    "%s (please type it again)",
		name:     "“%s”",
		send:     "Send again",
		back:     "Back without sending",
		units:    [4][2]string{{"day", "days"}, {"hour", "hours"}, {"minute", "minutes"}, {"second", "seconds"}},
		secrets:  [numSecrets]string{password: "Password", pin: "PIN", oneTimeCode: "One-time code", cardNumber: "Card number", cardCode: "Security code of the card"},
		why: [numWhy]string{
			whyKind:    "This kind of form cannot be kept in this page.",
			whyLong:    "It is too long to be kept in this page.",
			whyStrange: "It was sent in a way that this page cannot keep.",
		},
	},
	{
		language: "de",
		title:    "Noch nicht gesendet",
		many:     "Aus Ihrem Netz kommen gerade zu viele Anfragen.",
		check:    "Dieses Formular wird vor dem Senden kurz geprüft.",
		setup:    "Diese Website ist falsch eingerichtet. Bitte sagen Sie es dem Betreiber.",
		kept:     "Was Sie geschrieben haben, ist auf dieser Seite aufgehoben.",
		goBack:   "Bitte gehen Sie zurück, wo Ihr Browser es aufgehoben hat, und senden Sie es noch einmal.",
		script:   "Die Prüfung braucht JavaScript.",
		wait:     "Bitte in %s erneut senden.",
		again:    "%s (bitte noch einmal eingeben)",
		name:     "„%s“",
		send:     "Erneut senden",
		back:     "Zurück, ohne zu senden",
		units:    [4][2]string{{"Tag", "Tagen"}, {"Stunde", "Stunden"}, {"Minute", "Minuten"}, {"Sekunde", "Sekunden"}},
		secrets:  [numSecrets]string{password: "Passwort", pin: "PIN", oneTimeCode: "Einmalcode", cardNumber: "Kartennummer", cardCode: "Prüfnummer der Karte"},
		why: [numWhy]string{
			whyKind:    "Ein Formular dieser Art kann diese Seite nicht aufheben.",
			whyLong:    "Es ist zu lang, um auf dieser Seite aufgehoben zu werden.",
			whyStrange: "Es wurde auf eine Weise gesendet, in der diese Seite es nicht aufheben kann.",
		},
	},
	{
		language: "fr",
		title:    "Pas encore envoyé",
		many:     "Trop de demandes viennent de votre réseau en ce moment.",
		check:    "Ce formulaire passe une courte vérification avant l’envoi.",
		setup:    "Ce site est mal configuré. Veuillez prévenir son responsable.",
		kept:     "Ce que vous avez écrit est conservé dans cette page.",
		goBack:   "Veuillez revenir en arrière, où votre navigateur l’a conservé, et l’envoyer de nouveau.",
		script:   "La vérification a besoin de JavaScript.",
		wait:     "Veuillez renvoyer dans %s.",
		again:    "%s (à saisir de nouveau)",
		name:     "« %s »",
		send:     "Renvoyer",
		back:     "Revenir sans envoyer",
		units:    [4][2]string{{"jour", "jours"}, {"heure", "heures"}, {"minute", "minutes"}, {"seconde", "secondes"}},
		secrets:  [numSecrets]string{password: "Mot de passe", pin: "Code PIN", oneTimeCode: "Code à usage unique", cardNumber: "Numéro de carte", cardCode: "Cryptogramme de la carte"},
		why: [numWhy]string{
			whyKind:    "Cette page ne peut pas conserver un formulaire de ce genre.",
			whyLong:    "Il est trop long pour être conservé dans cette page.",
			whyStrange: "Il a été envoyé d’une façon que cette page ne peut pas conserver.",
		},
	},
}

// wordsFor returns the words for a page that is sent with some fields already, in answer
// to r. The Content-Language that a program has set before is that of its site.
// Otherwise the language is what the browser asks for: what the page was written in that
// sent the form, nobody says.
func wordsFor(h http.Header, r *http.Request) *words {
	accept := r.Header["Accept-Language"]
	if own := h["Content-Language"]; len(own) > 0 {
		accept = own
	}
	var offered [len(speech)]string
	for i := range speech {
		offered[i] = speech[i].language
	}
	language := httpfield.Language(accept, offered[:]...)
	for i := range speech {
		if speech[i].language == language {
			return &speech[i]
		}
	}
	return &speech[0]
}

// appendWait says how long to wait, in the largest unit that does not mislead.
func (w *words) appendWait(b []byte, wait time.Duration) []byte {
	sizes := [...]time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	unit := 0
	for unit < len(sizes)-1 && wait < 2*sizes[unit] {
		unit++
	}
	n := int64((wait + sizes[unit] - 1) / sizes[unit])
	name := w.units[unit][1]
	if n == 1 {
		name = w.units[unit][0]
	}
	before, after, _ := strings.Cut(w.wait, "%s")
	b = strconv.AppendInt(append(b, before...), n, 10)
	b = append(append(b, ' '), name...)
	return append(b, after...)
}
