// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/printed"
	"github.com/tallystick/tallystick/middleware"
)

// What docs/wire.md says, computed here from its words alone, and held to the vectors.

const wirePage = "docs/wire.md"

// lines are the lines of an example by their first words.
func linesOf(b printed.Block) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(b.Text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = strings.TrimSpace(value)
	}
	return all
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	return b
}

func derived(t *testing.T, secret, salt, info string) []byte {
	t.Helper()
	key, err := hkdf.Key(sha256.New, unhex(t, secret), []byte(salt), info, 32)
	require.NoError(t, err)
	return key
}

func mac(key []byte, message ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(bytes.Join(message, nil))
	return h.Sum(nil)
}

func sum(message ...[]byte) []byte {
	s := sha256.Sum256(bytes.Join(message, nil))
	return s[:]
}

// sipHash is SipHash-2-4, by whole words of a message that is padded first.
func sipHash(key, message []byte) []byte {
	low, high := binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[8:])
	v := [4]uint64{}
	for i, c := range []string{"somepseu", "dorandom", "lygenera", "tedbytes"} {
		v[i] = binary.BigEndian.Uint64([]byte(c)) ^ [2]uint64{low, high}[i%2]
	}
	mix := func(a, b, turn int) { // v[b] into v[a] and back
		v[a] += v[b]
		v[b] = bits.RotateLeft64(v[b], turn) ^ v[a]
	}
	rounds := func(n int) {
		for range n {
			mix(0, 1, 13)
			mix(2, 3, 16)
			v[0] = bits.RotateLeft64(v[0], 32)
			mix(2, 1, 17)
			mix(0, 3, 21)
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	padded := append(make([]byte, 0, len(message)+8), message...)
	padded = append(padded, make([]byte, 7-len(message)%8)...)
	padded = append(padded, byte(len(message)))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		rounds(2)
		v[0] ^= m
	}
	v[2] ^= 0xff
	rounds(4)
	return binary.LittleEndian.AppendUint64(nil, v[0]^v[1]^v[2]^v[3])
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

var b64 = base64.RawURLEncoding

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

func TestWireExamples(t *testing.T) {
	var examples []printed.Block
	for _, b := range blocksOf(t, "text") {
		if b.Page == wirePage {
			examples = append(examples, b)
		}
	}
	require.Len(t, examples, 2, "each has its test here")
	t.Run("window token", func(t *testing.T) { tokenExample(t, linesOf(examples[0])) })
	t.Run("proof of work", func(t *testing.T) { proofExample(t, linesOf(examples[1])) })
}

func tokenExample(t *testing.T, said map[string]string) {
	var vectors struct {
		Policies []struct {
			Name   string `json:"name"`
			Limits []struct {
				Name      string `json:"name"`
				Algorithm string `json:"algorithm"`
				Window    int64  `json:"window"`
			} `json:"limits"`
		} `json:"policies"`
		Vectors []struct {
			Name     string   `json:"name"`
			Policy   int      `json:"policy"`
			Secrets  []string `json:"secrets"`
			Identity string   `json:"identity"`
			Now      int64    `json:"now"`
			Token    string   `json:"token"`
			Tally    []struct {
				At   int64 `json:"at"`
				Cur  int64 `json:"cur"`
				Prev int64 `json:"prev"`
			} `json:"tally"`
		} `json:"vectors"`
	}
	readJSON(t, "token/testdata/vectors.json", &vectors)
	v := vectors.Vectors[0]
	for _, v = range vectors.Vectors {
		if v.Name == "all three" {
			break
		}
	}
	require.Equal(t, "all three", v.Name)
	policy := vectors.Policies[v.Policy]
	require.Equal(t, []string{v.Secrets[0], policy.Name, v.Identity, strconv.FormatInt(v.Now, 10), v.Token},
		[]string{said["secret"], said["policy"], said["identity"], said["now"], said["token"]})

	key := derived(t, said["secret"], "tallystick/v1", "tallystick/v1/window/"+said["policy"])
	bind := derived(t, said["secret"], "tallystick/v1", "tallystick/v1/bind/"+said["policy"])[:16]
	kid := b64.EncodeToString(derived(t, said["secret"], "tallystick/v1", "tallystick/v1/kid/"+said["policy"]))[:4]
	require.Equal(t, []string{hex.EncodeToString(key), hex.EncodeToString(bind), kid}, []string{said["key"], said["bind"], said["kid"]})
	require.Equal(t, `{"alg":"HS256","kid":"`+kid+`","typ":"t+jwt"}`, said["header"])

	var claims struct {
		Sub string  `json:"sub"`
		Exp int64   `json:"exp"`
		T   []int64 `json:"t"`
	}
	require.NoError(t, json.Unmarshal([]byte(said["payload"]), &claims))
	require.Equal(t, b64.EncodeToString(sipHash(bind, unhex(t, said["identity"]))[:6]), claims.Sub)
	var entries []int64
	for i, limit := range policy.Limits {
		h := uint64(0xcbf29ce484222325) // FNV-1a
		for _, c := range []byte(limit.Algorithm + " " + strconv.FormatInt(limit.Window, 10) + " " + limit.Name) {
			h = (h ^ uint64(c)) * 0x100000001b3
		}
		origin := claims.Exp / limit.Window
		if strings.HasSuffix(limit.Algorithm, "bucket") {
			origin = claims.Exp * 1_000_000
		}
		state := v.Tally[i]
		entries = append(entries, int64((h^h>>24^h>>48)&0xffffff), origin-state.At, state.Cur, state.Prev)
	}
	require.Equal(t, entries, claims.T)
	require.Equal(t, int64(1547), claims.Exp/60-28333333, "the sum below the example")

	signed := b64.EncodeToString([]byte(said["header"])) + "." + b64.EncodeToString([]byte(said["payload"]))
	require.Equal(t, said["token"], signed+"."+b64.EncodeToString(mac(key, []byte(signed))))

	var named []string
	for _, row := range tableOf(t, wirePage, "| claim |") {
		named = append(named, plain(row[0]))
	}
	require.Equal(t, []string{"aud", "sub", "fam", "exp", "t"}, named)
	require.Regexp(t, `^{"aud":".*","sub":".*","exp":\d+,"t":\[.*\]}$`, said["payload"], "fam is of bought ones")
}

func proofExample(t *testing.T, said map[string]string) {
	var vectors struct {
		Secrets []string `json:"secrets"`
		Issue   []struct {
			Name   string `json:"name"`
			Secret int    `json:"secret"`
			At     int64  `json:"at"`
			Client string `json:"client"`
			Route  string `json:"route"`
			Tier   string `json:"tier"`
			Work   uint64 `json:"work"`
			Nonce  string `json:"nonce"`
			Header string `json:"header"`
			Proof  string `json:"proof"`
		} `json:"issue"`
	}
	readJSON(t, "pow/testdata/vectors.json", &vectors)
	v := vectors.Issue[0]
	for _, v = range vectors.Issue {
		if v.Name == "work 1000" {
			break
		}
	}
	require.Equal(t, "work 1000", v.Name)
	challenge, terms, _ := strings.Cut(v.Header, ";")
	require.Equal(t, "ttl=10;work=1000", terms)
	require.Equal(t, []string{vectors.Secrets[v.Secret], v.Client, v.Route, v.Tier, strconv.FormatInt(v.At, 10), v.Nonce, challenge, v.Proof},
		[]string{said["secret"], said["client"], said["route"], said["tier"], said["issued"], said["nonce"], said["challenge"], said["proof"]})

	// The bytes lie where the table says.
	raw, err := b64.DecodeString(challenge)
	require.NoError(t, err)
	k := int(raw[3])
	field, end := map[string][]byte{}, 0
	number := func(cell string) int {
		total := 0
		for part := range strings.SplitSeq(cell, "+") {
			factor, times, _ := strings.Cut(part, "·")
			n, err := strconv.Atoi(factor)
			require.NoError(t, err)
			if times == "k" {
				n *= k
			}
			total += n
		}
		return total
	}
	for _, row := range tableOf(t, wirePage, "| offset |") {
		require.Equal(t, end, number(row[0]), "%s begins where the last one ends", row[2])
		end = number(row[0]) + number(row[1])
		require.LessOrEqual(t, end, len(raw))
		field[regexp.MustCompile(`\w+$`).FindString(strings.Split(plain(row[2]), ",")[0])] = raw[number(row[0]):end]
	}
	require.Len(t, raw, end)
	value := func(name string) int64 {
		return int64(binary.BigEndian.Uint64(append(make([]byte, 8-len(field[name])), field[name]...)))
	}
	require.Equal(t, []int64{1, 1, 8, v.At, 10}, []int64{value("version"), value("algorithm"), value("k"), value("issued"), value("ttl")})
	require.Equal(t, said["nonce"], hex.EncodeToString(field["nonce"]))

	key := map[string][]byte{}
	for _, name := range []string{"kid", "mac", "num", "bind"} {
		key[name] = derived(t, said["secret"], "", "tallystick/pow/"+name+"/1")
		if name != "kid" {
			require.Equal(t, said[name], hex.EncodeToString(key[name]))
		}
	}
	require.Equal(t, key["kid"][:1], field["kid"])
	header, seed := raw[:38], sum(raw[:38])
	require.Equal(t, said["seed"], hex.EncodeToString(seed))
	require.Equal(t, said["id"], hex.EncodeToString(sum([]byte("tallystick/pow/id/1"), header)[:16]))
	var bound []byte
	for _, part := range [][]byte{unhex(t, said["client"]), []byte(said["route"]), []byte(said["tier"])} {
		bound = append(append(bound, word(uint32(len(part)))...), part...)
	}
	require.Equal(t, mac(key["bind"], bound)[:8], field["binding"])
	require.Equal(t, mac(key["mac"], raw[:len(raw)-16])[:16], field["MAC"])

	numbers := mac(key["num"], word(0), header)
	answers := strings.Split(strings.TrimPrefix(said["proof"], challenge+"~"), ".")
	require.Len(t, answers, k)
	r := value("R")
	for i, answer := range answers {
		n, err := strconv.ParseUint(answer, 10, 32)
		require.NoError(t, err)
		require.Equal(t, uint64(binary.BigEndian.Uint32(numbers[4*i:]))*uint64(r)>>32, n)
		require.Equal(t, field["bytes"][6*i:6*i+6], sum(seed, word(uint32(i)), word(uint32(n)))[:6])
	}
	require.EqualValues(t, v.Work, (int64(k)*r+1)/2)
}

// The fields of the table are those that the middleware names.
func TestWireFields(t *testing.T) {
	require.ElementsMatch(t, []string{
		middleware.TokenHeader, middleware.ChallengeHeader, middleware.ProofHeader, middleware.DegradedHeader,
		"RateLimit", "RateLimit-Policy", "Retry-After",
	}, first(tableOf(t, wirePage, "| field |")))
}
