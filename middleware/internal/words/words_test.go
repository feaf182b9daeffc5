// SPDX-License-Identifier: Apache-2.0

package words

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

var update = flag.Bool("update", false, "make the Go and the JavaScript of words.txt anew")

// source is the file of the translators.
const source = "words.txt"

// A block holds what the file says in one language.
type block struct {
	tag  string
	line int               // of its head
	says map[string]string // by key
	at   map[string]int    // the lines of the keys
}

// pluralForms are the names of the plurals, and how many forms a word has.
var pluralForms = map[string]int{"one": 1, "two": 2, "slavic": 3}

// keysOf returns the keys of the fields of a struct of sentences, in their order.
func keysOf(prefix string, of any) (keys []string) {
	t := reflect.TypeOf(of)
	for i := range t.NumField() {
		name := t.Field(i).Name
		key := strings.ToLower(name[:1]) + name[1:]
		if name == strings.ToUpper(name) {
			key = strings.ToLower(name)
		}
		keys = append(keys, prefix+key)
	}
	return keys
}

var (
	timeKeys = []string{"time.day", "time.hour", "time.minute", "time.second"}
	heads    = []string{"review", "direction", "plural"}
	tagLine  = regexp.MustCompile(`^\[([a-z]{2,3})\]$`)
)

// parse reads the file, or says what is wrong with it, and on which line.
func parse(text string) (blocks []*block, err error) {
	wrong := func(line int, format string, args ...any) ([]*block, error) {
		return nil, fmt.Errorf("%s:%d: %s", source, line, fmt.Sprintf(format, args...))
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !utf8.ValidString(line) {
			return wrong(n, "this is not UTF-8")
		}
		if head := tagLine.FindStringSubmatch(line); head != nil {
			if slices.ContainsFunc(blocks, func(b *block) bool { return b.tag == head[1] }) {
				return wrong(n, "a second block of %s", head[1])
			}
			blocks = append(blocks, &block{tag: head[1], line: n, says: map[string]string{}, at: map[string]int{}})
			continue
		}
		key, value, found := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !found:
			return wrong(n, "this is neither a comment, nor [language], nor key = sentence")
		case len(blocks) == 0:
			return wrong(n, "%s stands before the first [language]", key)
		}
		b := blocks[len(blocks)-1]
		if b.at[key] > 0 {
			return wrong(n, "%s has two lines: %d is the other", key, b.at[key])
		}
		b.says[key], b.at[key] = value, n
	}
	if len(blocks) == 0 || blocks[0].tag != "en" {
		return wrong(1, "the first language is not en")
	}
	english := blocks[0]
	required := slices.Concat(heads[1:], timeKeys, keysOf("page.", Page{}), keysOf("form.", Form{}))
	for _, key := range required {
		if english.at[key] == 0 {
			return wrong(english.line, "en has no %s", key)
		}
	}
	for _, b := range blocks {
		for _, key := range inOrder(english) {
			if b.at[key] == 0 && key != "review" {
				return wrong(b.line, "%s has no %s", b.tag, key)
			}
		}
		for _, key := range inOrder(b) {
			at, value := b.at[key], b.says[key]
			if !slices.Contains(required, key) && !slices.Contains(heads, key) && !strings.HasPrefix(key, "element.") || english.at[key] == 0 && key != "review" {
				return wrong(at, "English has no %s", key)
			}
			switch key {
			case "review":
				if value != "wanted" {
					return wrong(at, "%s is wanted, or has no line", key)
				}
				continue
			case "direction":
				if value != "ltr" && value != "rtl" {
					return wrong(at, "%s is ltr or rtl", key)
				}
				continue
			case "plural":
				if pluralForms[value] == 0 {
					return wrong(at, "%s is one, two or slavic", key)
				}
				continue
			}
			if (value == "") != (english.says[key] == "") {
				return wrong(at, "%s says %q, and in English %q", key, value, english.says[key])
			}
			if html.EscapeString(value) != value {
				return wrong(at, "%s has one of <>&'\": write ’ and “", key)
			}
			if i := strings.IndexFunc(value, func(c rune) bool { return c == '\\' || unicode.IsControl(c) || '\u202a' <= c && c <= '\u202e' }); i >= 0 {
				return wrong(at, "%s has a \\ or a control character", key)
			}
			if slices.Contains(timeKeys, key) {
				forms := strings.Split(value, "|")
				if len(forms) != pluralForms[b.says["plural"]] {
					return wrong(at, "%s has %d forms; plural = %s wants %d, with | between them", key, len(forms), b.says["plural"], pluralForms[b.says["plural"]])
				}
				for i, form := range forms {
					// Of two forms the first is for one alone, which may have a word.
					if strings.TrimSpace(form) == "" || strings.Count(form, "{}") != 1 && (len(forms) != 2 || i > 0 || strings.Contains(form, "{}")) {
						return wrong(at, "%s has a form without its number, {}: %q", key, form)
					}
				}
			} else if strings.Count(value, "{}") != strings.Count(english.says[key], "{}") {
				return wrong(at, "%s has not as many {} as in English: %q", key, english.says[key])
			}
		}
	}
	return blocks, nil
}

// inOrder returns the keys of a block by their lines.
func inOrder(b *block) (keys []string) {
	for key := range b.at {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y string) int { return b.at[x] - b.at[y] })
	return keys
}

func read(t *testing.T) []*block {
	t.Helper()
	text := kit.Must(os.ReadFile(source))(t)
	return kit.Must(parse(string(text)))(t)
}

// goOf returns the Go that is made of the file.
func goOf(t *testing.T, blocks []*block) []byte {
	var b bytes.Buffer
	b.WriteString("// SPDX-License-Identifier: Apache-2.0\n\n// Code generated by go generate from words.txt. DO NOT EDIT.\n\npackage words\n\n")
	table := func(name, of string, row func(*block) string) {
		fmt.Fprintf(&b, "var %s = [...]%s{\n", name, of)
		for _, block := range blocks {
			fmt.Fprintf(&b, "%s, // %s\n", row(block), block.tag)
		}
		b.WriteString("}\n\n")
	}
	sentences := func(keys []string) func(*block) string {
		return func(block *block) string {
			var all []string
			for _, key := range keys {
				all = append(all, fmt.Sprintf("%q", block.says[key]))
			}
			return "{" + strings.Join(all, ", ") + "}"
		}
	}
	b.WriteString("// leftwards has a bit for each language that is written from right to left.\nconst leftwards = 0")
	for i, block := range blocks {
		if block.says["direction"] == "rtl" {
			fmt.Fprintf(&b, " | 1<<%d", i)
		}
	}
	b.WriteString("\n\n")
	table("tags", "string", func(block *block) string { return fmt.Sprintf("%q", block.tag) })
	table("plurals", "plural", func(block *block) string { return block.says["plural"] })
	table("units", "[4][3]string", func(block *block) string {
		var all []string
		for _, key := range timeKeys {
			var forms []string
			for form := range strings.SplitSeq(block.says[key], "|") {
				forms = append(forms, fmt.Sprintf("%q", strings.TrimSpace(form)))
			}
			all = append(all, "{"+strings.Join(forms, ", ")+"}")
		}
		return "{" + strings.Join(all, ", ") + "}"
	})
	table("pages", "Page", sentences(keysOf("page.", Page{})))
	table("forms", "Form", sentences(keysOf("form.", Form{})))
	made, err := format.Source(b.Bytes())
	require.NoError(t, err, "%s", &b)
	return made
}

// What stands between these lines of texts.js is made of the file.
const (
	texts    = "../assets/texts.js"
	textsOne = "../assets/texts-%s.js"
	textsTop = "// Made of words.txt by go generate: change that.\n"
	textsEnd = "// So far.\n"
)

// scriptsOf returns texts.js with the words of the file, and a script for each further language.
func scriptsOf(t *testing.T, blocks []*block) (made map[string]string) {
	was := kit.Must(os.ReadFile(texts))(t)
	before, rest, found := strings.Cut(string(was), textsTop)
	require.True(t, found)
	_, after, found := strings.Cut(rest, textsEnd)
	require.True(t, found)
	made = make(map[string]string)
	var leftwards, others []string
	for i, block := range blocks {
		var b strings.Builder
		for _, key := range inOrder(block) {
			if name, is := strings.CutPrefix(key, "element."); is {
				fmt.Fprintf(&b, "    %s: \"%s\",\n", name, block.says[key])
			}
		}
		if block.says["direction"] == "rtl" {
			leftwards = append(leftwards, strconv.Quote(block.tag))
		}
		if i == 0 {
			before += textsTop + "const TEXTS = {\n  en: {\n" + b.String() + "  },\n};\n\n"
			continue
		}
		others = append(others, strconv.Quote(block.tag))
		made[fmt.Sprintf(textsOne, block.tag)] = textsTop + "export default {\n" + strings.ReplaceAll(b.String(), "    ", "  ") + "};\n"
	}
	made[texts] = fmt.Sprintf("%sconst OTHERS = [%s], LEFTWARDS = [%s];\n%s%s", before, strings.Join(others, ", "), strings.Join(leftwards, ", "), textsEnd, after)
	return made
}

// The Go and the JavaScript say what the file says.
func TestGeneratedFromWords(t *testing.T) {
	blocks := read(t)
	made := goOf(t, blocks)
	files := scriptsOf(t, blocks)
	files["tables.go"] = string(made)
	if *update {
		for name, text := range files {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
		}
		return
	}
	there := kit.Must(filepath.Glob(fmt.Sprintf(textsOne, "*")))(t)
	require.Len(t, files, 2+len(there), "a script of no language")
	const cure = "run: go generate ./middleware/internal/words ./middleware/internal/assets"
	for name, text := range files {
		now, err := os.ReadFile(name)
		require.NoError(t, err, cure)
		require.Equal(t, text, string(now), cure)
	}
}

// Whatever a translator gets wrong, the line is named.
func TestWrongWords(t *testing.T) {
	text := kit.Must(os.ReadFile(source))(t)
	lines := strings.SplitAfter(string(text), "\n")
	find := func(from int, prefix string) int {
		for i := from; i < len(lines); i++ {
			if strings.HasPrefix(lines[i], prefix) {
				return i
			}
		}
		require.Fail(t, prefix)
		return 0
	}
	russian := find(0, "[ru]")
	for name, test := range map[string]struct {
		line      int // from 0
		now, says string
		at        int // the line that is named, from 0
	}{
		"a sentence is missing":        {find(russian, "page.check"), "", "ru has no page.check", russian},
		"a text of the element, too":   {find(russian, "element.risen"), "", "ru has no element.risen", russian},
		"the plural is missing":        {find(russian, "plural"), "", "ru has no plural", russian},
		"an empty sentence":            {find(russian, "page.check"), "page.check =\n", `page.check says ""`, -1},
		"a sentence of another time":   {find(russian, "page.check"), "page.cheque = x\n", "ru has no page.check", russian},
		"one sentence more":            {find(russian, "page.check"), lines[find(russian, "page.check")] + "page.cheque = x\n", "English has no page.cheque", find(russian, "page.check") + 1},
		"a sentence twice":             {find(russian, "page.check"), "form.send = x\n", "form.send has two lines", find(russian, "form.send")},
		"a placeholder is lost":        {find(russian, "page.later"), "page.later = x\n", "page.later has not as many {}", -1},
		"a placeholder too many":       {find(russian, "page.check"), "page.check = {}\n", "page.check has not as many {}", -1},
		"a plural form is missing":     {find(russian, "time.hour"), "time.hour = {} час | {} часов\n", "time.hour has 2 forms; plural = slavic wants 3", -1},
		"a plural form without number": {find(russian, "time.hour"), "time.hour = час | {} часа | {} часов\n", "time.hour has a form without its number", -1},
		"an unknown plural":            {find(russian, "plural"), "plural = many\n", "plural is one, two or slavic", -1},
		"an unknown direction":         {find(russian, "direction"), "direction = left\n", "direction is ltr or rtl", -1},
		"a review of another kind":     {find(russian, "review"), "review = done\n", "review is wanted", -1},
		"what needs escaping":          {find(russian, "page.check"), "page.check = x < y\n", "page.check has one of", -1},
		"what JavaScript escapes":      {find(russian, "element.working"), "element.working = x\\\n", "element.working has a \\ or", -1},
		"what turns the text around":   {find(russian, "page.check"), "page.check = x\u202ey\n", "page.check has a \\ or", -1},
		"no key":                       {find(russian, "page.check"), "page.check: x\n", "this is neither a comment", -1},
		"not UTF-8":                    {find(russian, "page.check"), "page.check = \xff\n", "this is not UTF-8", -1},
		"a language twice":             {russian, "[de]\n", "a second block of de", -1},
		"a sentence before all":        {0, "page.check = x\n", "page.check stands before the first [language]", -1},
		"another first language":       {find(0, "[en]"), "[eo]\n", "the first language is not en", 0},
	} {
		t.Run(name, func(t *testing.T) {
			changed := slices.Clone(lines)
			changed[test.line] = test.now
			at := test.at
			if at < 0 {
				at = test.line
			}
			_, err := parse(strings.Join(changed, ""))
			require.ErrorContains(t, err, fmt.Sprintf("words.txt:%d: %s", at+1, test.says))
		})
	}
}

func TestFor(t *testing.T) {
	for _, test := range []struct{ own, accept, want string }{
		{"", "", "en"},
		{"", "de-CH, en;q=0.5", "de"},
		{"", "sv, fr;q=0.5", "fr"},
		{"", "sv", "en"},
		{"", "zh-TW", "zh"},
		{"", "ko-KR,ko;q=0.9", "ko"},
		{"", "RU", "ru"},
		{"", "he-IL", "he"},
		{"", "iw", "he"}, // its name of before 1989, which Java sent until 2021
		{"", "iw-IL,en;q=0.9", "he"},
		{"", "tr;q=0, uk;q=0.1", "uk"},
		{"fr-CA", "de", "fr"},
		{"sv", "de", "en"}, // the site has a language: another would be worse than ours
	} {
		h, r := http.Header{}, &http.Request{Header: http.Header{"Accept-Language": {test.accept}}}
		if test.own != "" {
			h.Set("Content-Language", test.own)
		}
		require.Equal(t, test.want, tags[For(h, r)], "%v", test)
	}
}

func TestDirection(t *testing.T) {
	for i, tag := range tags {
		want := ` lang="` + tag + `"`
		if tag == "he" {
			want += ` dir="rtl"`
		}
		require.Equal(t, want, string(Language(i).AppendAttributes(nil)))
	}
}

// Each language has its own way with numbers.
func TestWaits(t *testing.T) {
	waits := [...]time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 11 * time.Second, 21 * time.Second, 119 * time.Second, 121 * time.Second, 3 * time.Hour, 49 * time.Hour}
	want := map[string][len(waits)]string{
		"en": {"Try again in 1 second.", "Try again in 2 seconds.", "Try again in 5 seconds.", "Try again in 11 seconds.", "Try again in 21 seconds.", "Try again in 119 seconds.", "Try again in 3 minutes.", "Try again in 3 hours.", "Try again in 3 days."},
		"de": {"Bitte in 1 Sekunde noch einmal versuchen.", "Bitte in 2 Sekunden noch einmal versuchen.", "Bitte in 5 Sekunden noch einmal versuchen.", "Bitte in 11 Sekunden noch einmal versuchen.", "Bitte in 21 Sekunden noch einmal versuchen.", "Bitte in 119 Sekunden noch einmal versuchen.", "Bitte in 3 Minuten noch einmal versuchen.", "Bitte in 3 Stunden noch einmal versuchen.", "Bitte in 3 Tagen noch einmal versuchen."},
		"fr": {"Veuillez réessayer dans 1 seconde.", "Veuillez réessayer dans 2 secondes.", "Veuillez réessayer dans 5 secondes.", "Veuillez réessayer dans 11 secondes.", "Veuillez réessayer dans 21 secondes.", "Veuillez réessayer dans 119 secondes.", "Veuillez réessayer dans 3 minutes.", "Veuillez réessayer dans 3 heures.", "Veuillez réessayer dans 3 jours."},
		"es": {"Inténtelo de nuevo en 1 segundo.", "Inténtelo de nuevo en 2 segundos.", "Inténtelo de nuevo en 5 segundos.", "Inténtelo de nuevo en 11 segundos.", "Inténtelo de nuevo en 21 segundos.", "Inténtelo de nuevo en 119 segundos.", "Inténtelo de nuevo en 3 minutos.", "Inténtelo de nuevo en 3 horas.", "Inténtelo de nuevo en 3 días."},
		"it": {"Riprovi tra 1 secondo.", "Riprovi tra 2 secondi.", "Riprovi tra 5 secondi.", "Riprovi tra 11 secondi.", "Riprovi tra 21 secondi.", "Riprovi tra 119 secondi.", "Riprovi tra 3 minuti.", "Riprovi tra 3 ore.", "Riprovi tra 3 giorni."},
		"pt": {"Tente novamente em 1 segundo.", "Tente novamente em 2 segundos.", "Tente novamente em 5 segundos.", "Tente novamente em 11 segundos.", "Tente novamente em 21 segundos.", "Tente novamente em 119 segundos.", "Tente novamente em 3 minutos.", "Tente novamente em 3 horas.", "Tente novamente em 3 dias."},
		"nl": {"Probeer het over 1 seconde opnieuw.", "Probeer het over 2 seconden opnieuw.", "Probeer het over 5 seconden opnieuw.", "Probeer het over 11 seconden opnieuw.", "Probeer het over 21 seconden opnieuw.", "Probeer het over 119 seconden opnieuw.", "Probeer het over 3 minuten opnieuw.", "Probeer het over 3 uur opnieuw.", "Probeer het over 3 dagen opnieuw."},
		"pl": {"Proszę spróbować ponownie za 1 s.", "Proszę spróbować ponownie za 2 s.", "Proszę spróbować ponownie za 5 s.", "Proszę spróbować ponownie za 11 s.", "Proszę spróbować ponownie za 21 s.", "Proszę spróbować ponownie za 119 s.", "Proszę spróbować ponownie za 3 min.", "Proszę spróbować ponownie za 3 h.", "Proszę spróbować ponownie za 3 dni."},
		"ja": {"1秒後にもう一度お試しください。", "2秒後にもう一度お試しください。", "5秒後にもう一度お試しください。", "11秒後にもう一度お試しください。", "21秒後にもう一度お試しください。", "119秒後にもう一度お試しください。", "3分後にもう一度お試しください。", "3時間後にもう一度お試しください。", "3日後にもう一度お試しください。"},
		"zh": {"请在1秒后重试。", "请在2秒后重试。", "请在5秒后重试。", "请在11秒后重试。", "请在21秒后重试。", "请在119秒后重试。", "请在3分钟后重试。", "请在3小时后重试。", "请在3天后重试。"},
		"he": {"נסו שוב בעוד שנייה אחת.", "נסו שוב בעוד 2 שניות.", "נסו שוב בעוד 5 שניות.", "נסו שוב בעוד 11 שניות.", "נסו שוב בעוד 21 שניות.", "נסו שוב בעוד 119 שניות.", "נסו שוב בעוד 3 דקות.", "נסו שוב בעוד 3 שעות.", "נסו שוב בעוד 3 ימים."},
		"ru": {"Повторите попытку через 1 секунду.", "Повторите попытку через 2 секунды.", "Повторите попытку через 5 секунд.", "Повторите попытку через 11 секунд.", "Повторите попытку через 21 секунду.", "Повторите попытку через 119 секунд.", "Повторите попытку через 3 минуты.", "Повторите попытку через 3 часа.", "Повторите попытку через 3 дня."},
		"ko": {"1초 후에 다시 시도해 주세요.", "2초 후에 다시 시도해 주세요.", "5초 후에 다시 시도해 주세요.", "11초 후에 다시 시도해 주세요.", "21초 후에 다시 시도해 주세요.", "119초 후에 다시 시도해 주세요.", "3분 후에 다시 시도해 주세요.", "3시간 후에 다시 시도해 주세요.", "3일 후에 다시 시도해 주세요."},
		"tr": {"1 saniye sonra yeniden deneyin.", "2 saniye sonra yeniden deneyin.", "5 saniye sonra yeniden deneyin.", "11 saniye sonra yeniden deneyin.", "21 saniye sonra yeniden deneyin.", "119 saniye sonra yeniden deneyin.", "3 dakika sonra yeniden deneyin.", "3 saat sonra yeniden deneyin.", "3 gün sonra yeniden deneyin."},
		"uk": {"Спробуйте ще раз через 1 секунду.", "Спробуйте ще раз через 2 секунди.", "Спробуйте ще раз через 5 секунд.", "Спробуйте ще раз через 11 секунд.", "Спробуйте ще раз через 21 секунду.", "Спробуйте ще раз через 119 секунд.", "Спробуйте ще раз через 3 хвилини.", "Спробуйте ще раз через 3 години.", "Спробуйте ще раз через 3 дні."},
	}
	require.Len(t, want, len(tags))
	for i, tag := range tags {
		l := Language(i)
		for j, wait := range waits {
			require.Equal(t, want[tag][j], string(l.AppendWait(nil, l.Page().Later, wait)))
		}
	}
}
