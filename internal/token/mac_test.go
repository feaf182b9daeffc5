// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/fips140"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/siphash"
	"github.com/tallystick/tallystick/proof/kit"
)

// sameMAC requires that our MAC of a message in parts equals the one of crypto/hmac.
// Theirs is exempt from GODEBUG=fips140=only, where it panics at a key of less than 14 bytes; keys
// are derived and have 32, but the arithmetic is right for any length, and is held to it.
func sameMAC(t testing.TB, key []byte, prefix string, parts ...[]byte) {
	t.Helper()
	m := newMAC(key, prefix)
	var theirs hash.Hash
	fips140.WithoutEnforcement(func() { theirs = hmac.New(sha256.New, key) })
	theirs.Write([]byte(prefix))
	s := scratches.New().(*scratch)
	for range 2 { // a scratch and a mac can be used again
		if got := s.authenticate(&m, bytes.Join(parts, nil)); !hmac.Equal(got, sumOf(theirs, parts)) {
			require.Failf(t, "not HMAC", "key %x prefix %x message %x", key, prefix, parts)
		}
		theirs.Reset()
		theirs.Write([]byte(prefix))
	}
}

func sumOf(h interface {
	Write([]byte) (int, error)
	Sum([]byte) []byte
}, parts [][]byte) []byte {
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// TestMAC compares with crypto/hmac around every block boundary, and at random.
func TestMAC(t *testing.T) {
	r := random(9)
	for n := range 201 { // a prefix is a fixed start of 64 bytes, but may become another
		sameMAC(t, randomBytes(r, 32), string(randomBytes(r, n)), randomBytes(r, 200-n))
		sameMAC(t, randomBytes(r, 32), string(randomBytes(r, n)))
		sameMAC(t, randomBytes(r, r.IntN(sha256.BlockSize+1)), string(randomBytes(r, r.IntN(201))),
			randomBytes(r, r.IntN(600)), nil, randomBytes(r, r.IntN(70)))
	}
	sameMAC(t, nil, "")
	sameMAC(t, make([]byte, 64), "")
}

// TestParallel uses one codec from many goroutines, each with tokens of its own:
// nothing of one shows up in another. Its point is the race detector.
func TestParallel(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	c := newCodec(t, p, secret("new"), secret("old"))
	old := newCodec(t, p, secret("old"))
	kit.Together(8, func(g int) {
		identity := []byte(fmt.Sprint("client ", g))
		h, before := c.Holder(identity), old.Holder(identity)
		tally := used(t, p, int64(g%5)+1)
		want, aged := string(h.Append(nil, &tally)), string(before.Append(nil, &tally))
		for range 200 {
			h := c.Holder(identity)
			tok := string(h.Append(nil, &tally))
			got, err := h.Verify(now, tok)
			of, errOf := h.Verify(now, aged)
			_, errBad := h.Verify(now, tok[:len(tok)-1]+"!")
			if tok != want || err != nil || got.Tally != tally || errOf != nil || of.Tally != tally || errBad != ErrForged {
				t.Errorf("client %d: %v %v %v", g, err, errOf, errBad)
			}
		}
	})
}

// TestSipHashVectors: of the key 00 01 … 0f and the message 00 01 … of each length, as the
// authors of SipHash have published them; the last is the example of the paper's appendix.
// testdata/windowtoken.py is written from the paper once more, and the vectors hold the two
// equal for identities of all lengths.
func TestSipHashVectors(t *testing.T) {
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	for n, want := range map[int]string{
		0: "310e0edd47db6f72", 1: "fd67dc93c539f874", 2: "5a4fa9d909806c0d", 3: "2d7efbd796666785",
		4: "b7877127e09427cf", 5: "8da699cd64557618", 6: "cee3fe586e46c9cb", 7: "37d1018bf50002ab",
		8: "6224939a79f5f593", 15: "e545be4961ca29a1",
	} {
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(i)
		}
		sum := siphash.New(key).Sum(message)
		require.Equal(t, want, hex.EncodeToString(sum[:]), "%d bytes", n)
	}
}

// TestSubjectIsAHash: under half of the key that is derived for it, and of all of the
// identity, whatever its length. A bit more or less is another client.
func TestSubjectIsAHash(t *testing.T) {
	bind := kit.Must(hkdf.Key(sha256.New, secret("a"), []byte("tallystick/v1"), "tallystick/v1/bind/contact", 32))(t)
	key := siphash.New([16]byte(bind[:16]))
	c, _ := contact(t)
	r := random(11)
	for n := range 70 {
		identity := randomBytes(r, n)
		sum := key.Sum(identity)
		subject := c.ring[0].subject(identity)
		require.Equal(t, base64.RawURLEncoding.EncodeToString(sum[:6]), string(subject[:]), "%d bytes", n)

		seen := map[[subjectLen]byte]bool{subject: true}
		for i := range 8 * n {
			identity[i/8] ^= 1 << (i % 8)
			seen[c.ring[0].subject(identity)] = true
			identity[i/8] ^= 1 << (i % 8)
		}
		seen[c.Holder(append(identity, 0)).subject] = true
		require.Len(t, seen, 8*n+2, "%d bytes", n)
	}
}

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
	keyfunc := kit.Must(Keyfunc("contact", [][]byte{secret("a")}))(t)

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
