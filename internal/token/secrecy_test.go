// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A leak finds a secret in a text, in any of the ways programs write bytes: any
// four of them in a row.
type leak struct{ needles []string }

func (l *leak) add(secret []byte) {
	for i := range len(secret) - 3 {
		run := secret[i : i+4]
		decimal := strings.Trim(fmt.Sprint(run), "[]")
		l.needles = append(l.needles,
			string(run), hex.EncodeToString(run), strings.ToUpper(hex.EncodeToString(run)),
			decimal, strings.ReplaceAll(decimal, " ", ","), strings.ReplaceAll(decimal, " ", ", "),
			fmt.Sprintf("%#v", run)[len("[]byte{"):len(fmt.Sprintf("%#v", run))-1],
			strings.Trim(fmt.Sprintf("%q", run), `"`),
			fmt.Sprintf("% x", run), fmt.Sprintf("% X", run),
			strings.Trim(fmt.Sprintf("%o", run), "[]"), strings.Trim(fmt.Sprintf("%b", run), "[]"),
		)
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 { // the same bytes look different at each offset
			for i := shift; i+6 <= len(secret); i += 3 {
				l.needles = append(l.needles, e.EncodeToString(secret[i:i+6]))
			}
		}
	}
}

func (l *leak) in(text string) bool {
	for _, needle := range l.needles {
		if strings.Contains(text, needle) {
			return true
		}
	}
	return false
}

// verbs are all verbs of fmt, with flags, and two that are none: what fmt writes
// of a misused verb it writes by reflection.
var verbs = []string{
	"%v", "%+v", "%#v", "%T", "%s", "%+s", "%q", "%#q", "%x", "%X", "% x", "%#x", "%d", "%+d", "%b", "%o", "%c", "%U",
	"%e", "%g", "%t", "%p", "%w", "%!", "%z", "%8.3v", "%-20s",
}

// written returns v as every usual way of writing writes it.
func written(t testing.TB, v any) map[string]string {
	out := map[string]string{"Sprint": fmt.Sprint(v), "Sprintln": fmt.Sprintln(v)}
	for _, verb := range verbs {
		out["Sprintf "+verb] = fmt.Sprintf(verb, v)
		out["Errorf "+verb] = fmt.Errorf(verb, v).Error()
	}
	var text, js bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&js, nil)} {
		log := slog.New(handler)
		log.Info("an any", "v", v)
		log.With("v", v).WithGroup("g").Info("a with", slog.Any("v", []any{v}), slog.Group("h", "v", v))
	}
	out["slog text"], out["slog JSON"] = text.String(), js.String()
	if b, err := json.Marshal(v); err != nil {
		out["json"] = err.Error()
	} else {
		out["json"] = string(b)
	}
	b, err := xml.Marshal(v)
	out["xml"] = fmt.Sprint(string(b), err)
	return out
}

// bindOf returns the bytes of the key of subjects.
func bindOf(k *key) []byte {
	words := reflect.ValueOf(k.bind)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, words.Field(0).Uint()), words.Field(1).Uint())
}

// TestNothingLeaks: no way of writing a value that holds keys shows a byte of
// the keys, of what they were derived from, or of an identity.
func TestNothingLeaks(t *testing.T) {
	// Bytes that no text holds by chance.
	identity := []byte("\xf1\x9d\xfe\x83customer-key-of-alice")
	c := newCodec(t, compile(t, "contact", contactLimits...), secret("a"), secret("b"))
	h := c.Holder(identity)
	keyfunc, err := Keyfunc("contact", [][]byte{secret("a")})
	require.NoError(t, err)

	var secrets leak
	for _, name := range []string{"a", "b"} {
		k := deriveKey("contact", secret(name))
		for _, b := range [][]byte{secret(name), k.window, k.sign.inner[4:36], k.sign.outer[4:36], bindOf(k)} {
			secrets.add(b)
		}
	}
	require.True(t, secrets.in(fmt.Sprint(c.ring[0].window)), "the detector must detect")
	require.True(t, secrets.in(fmt.Sprintf("%x", c.ring[1].sign)), "the detector must detect")
	require.True(t, secrets.in(base64.StdEncoding.EncodeToString(secret("b"))), "the detector must detect")
	var personal leak
	personal.add(identity)
	require.True(t, personal.in(fmt.Sprint(identity)), "the detector must detect")

	type Embeds struct {
		*Codec
		Name string
	}
	type named struct {
		Codec  *Codec
		Holder Holder
	}
	type hidden struct {
		codec *Codec
		name  string
	}
	for name, v := range map[string]any{
		"codec":              c,
		"codec by value":     *c,
		"pointer to pointer": &c,
		"holder":             h,
		"holder by pointer":  &h,
		"embedded":           Embeds{c, "site"},
		"embedded, pointer":  &Embeds{c, "site"},
		"field":              named{c, h},
		"hidden field":       hidden{c, "site"},
		"hidden in a slice":  []hidden{{c, "site"}},
		"list":               []any{c, *c, h, &h},
		"map":                map[string]any{"codec": c, "holder": h},
		"key function":       keyfunc,
	} {
		for how, text := range written(t, v) {
			require.False(t, secrets.in(text), "%s by %s: %s", name, how, text)
			// fmt writes a misused verb without asking the value, and then a
			// holder's own fields, which are the caller's bytes, not keys.
			if !strings.HasSuffix(how, "%w") && !strings.HasSuffix(how, "%p") {
				require.False(t, personal.in(text), "%s by %s: %s", name, how, text)
			}
		}
	}
	require.Equal(t, "token.Codec(contact)", fmt.Sprintf("%+v", c))
	require.Equal(t, "token.Holder(contact)", fmt.Sprintf("%#v", h))
}

// TestErrorsHideSecrets: errors about secrets name them by index only.
func TestErrorsHideSecrets(t *testing.T) {
	short, good, zeros := []byte("\xf1\x9d\xfe\x83short"), secret("a"), make([]byte, 40)
	var secrets leak
	secrets.add(short)
	secrets.add(good)
	p := compile(t, "contact", contactLimits...)
	_, fromNew := New([][]byte{short, good, good, zeros}, p)
	_, fromKeyfunc := Keyfunc("contact", [][]byte{short, good, good, zeros})
	for _, err := range []error{fromNew, fromKeyfunc, CheckSecrets([][]byte{good, short, good})} {
		require.Error(t, err)
		for how, text := range written(t, err) {
			require.False(t, secrets.in(text), "%s: %s", how, text)
		}
		for _, problem := range problems(t, err) {
			for how, text := range written(t, problem) {
				require.False(t, secrets.in(text), "%s: %s", how, text)
			}
		}
	}
	require.False(t, errors.Is(fromNew, ErrForged))
}
