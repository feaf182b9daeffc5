// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/storeless"
)

// secrets has one secret, and stands for what a program reads from its
// configuration. A real one is 32 bytes of crypto/rand, not a sentence.
var secrets = [][]byte{[]byte("not a secret: it is in an example")}

// noon is when the examples happen; a program passes time.Now().
var noon = time.Unix(1_700_000_000, 0)

func contactPolicy() *limiter.Policy {
	policy, err := limiter.Compile("contact", []storeless.Limit{{Quota: 5, Window: time.Minute}})
	if err != nil {
		log.Fatal(err)
	}
	return policy
}

// One request: verify what the client shows, decide, and give it the next token.
func ExampleCodec() {
	policy := contactPolicy()
	codec, err := token.New(secrets, policy)
	if err != nil {
		log.Fatal(err)
	}

	holder := codec.Holder([]byte("198.51.100.1"))
	shown := "" // the client's first request
	for range 2 {
		var tally limiter.Tally
		if verified, err := holder.Verify(noon, shown); err == nil {
			tally = verified.Tally
		} // a refused token is as if absent
		tally, verdict := policy.Step(noon, tally, 1)
		shown = string(holder.Append(nil, &tally))
		fmt.Println(verdict.Admitted, verdict.Limits[0].Remaining, len(shown), "bytes")
	}

	// Nobody else can use it.
	stranger := codec.Holder([]byte("203.0.113.9"))
	_, err = stranger.Verify(noon, shown)
	fmt.Println(errors.Is(err, token.ErrHolder))
	// Output:
	// true 4 196 bytes
	// true 3 196 bytes
	// true
}

// A tally of one's own: its first token has counted nothing, and is good from
// any address unless it is bound.
func ExampleHolder_AppendOwn() {
	policy := contactPolicy()
	codec, err := token.New(secrets, policy)
	if err != nil {
		log.Fatal(err)
	}

	// A client has solved a challenge, which was issued at noon.
	holder := codec.Holder([]byte("198.51.100.1"))
	own := token.Own{ID: [9]byte([]byte("a receipt")), Expires: noon.Add(48 * time.Hour).Unix()}
	first := string(holder.AppendOwn(nil, own, &limiter.Tally{}))
	fmt.Println(first == string(holder.AppendOwn(nil, own, &limiter.Tally{})), len(first), "bytes")

	// It changes networks, and is charged in the same tally.
	moved := codec.Holder([]byte("203.0.113.9"))
	verified, err := moved.Verify(noon, first)
	if err != nil {
		log.Fatal(err)
	}
	tally, verdict := policy.Step(noon, verified.Tally, 1)
	next := string(moved.AppendOwn(nil, verified.Own, &tally))
	verified, err = moved.Verify(noon, next)
	fmt.Println(verdict.Limits[0].Remaining, verified.Own == own, err)

	// When the tally ends, so do all of its tokens.
	_, err = moved.Verify(time.Unix(own.Expires, 0), next)
	fmt.Println(errors.Is(err, token.ErrExpired))

	// A bound one is good for its buyer only.
	own.Bound = true
	_, err = moved.Verify(noon, string(holder.AppendOwn(nil, own, &limiter.Tally{})))
	fmt.Println(errors.Is(err, token.ErrHolder))
	// Output:
	// true 184 bytes
	// 4 true <nil>
	// true
	// true
}

// The numbers of the public package's documentation.
func ExampleClaims() {
	policy, err := limiter.Compile("contact", []storeless.Limit{
		{Quota: 5, Window: time.Minute},
		{Quota: 50, Window: 24 * time.Hour},
		{Name: "burst", Algorithm: storeless.TokenBucket, Quota: 6, Window: time.Minute},
	})
	if err != nil {
		log.Fatal(err)
	}
	codec, err := token.New(secrets, policy)
	if err != nil {
		log.Fatal(err)
	}
	holder := codec.Holder([]byte("198.51.100.1"))
	tally, _ := policy.Step(noon, limiter.Tally{}, 1)
	own := token.Own{ID: [9]byte{1, 2, 3, 4, 5, 6, 7, 8}, Expires: noon.Add(48 * time.Hour).Unix()}
	bound := own
	bound.Bound = true
	for i, tok := range [][]byte{
		holder.Append(nil, &tally),
		holder.AppendOwn(nil, own, &limiter.Tally{}),
		holder.AppendOwn(nil, own, &tally),
		holder.AppendOwn(nil, bound, &limiter.Tally{}),
	} {
		segments := strings.Split(string(tok), ".")[:2]
		for _, segment := range segments[min(i, 1):] { // the header is always the same
			text, err := base64.RawURLEncoding.DecodeString(segment)
			fmt.Println(string(text), err)
		}
	}
	// Output:
	// {"alg":"HS256","kid":"z5_g","typ":"t+jwt"} <nil>
	// {"aud":"contact","sub":"Jg1a74bJ","exp":1700092800,"t":[8060369,1547,1,0,1872652,2,1,0,13735150,92790000000,0,0]} <nil>
	// {"aud":"contact","fam":"AQIDBAUGBwgA","exp":1700172800,"t":[]} <nil>
	// {"aud":"contact","fam":"AQIDBAUGBwgA","exp":1700172800,"t":[8060369,2880,1,0,1872652,2,1,0,13735150,172790000000,0,0]} <nil>
	// {"aud":"contact","sub":"Jg1a74bJ","fam":"AQIDBAUGBwgA","exp":1700172800,"t":[]} <nil>
}

// Wrong: to take the count of a token for the truth. A token proves that it was
// counted so far, and not that nothing was counted since; whoever keeps his
// first token and shows it again and again is always at his first request.
func ExampleHolder_Verify_replay() {
	policy := contactPolicy() // 5 a minute
	codec, err := token.New(secrets, policy)
	if err != nil {
		log.Fatal(err)
	}
	identity := []byte("198.51.100.1")
	holder := codec.Holder(identity)
	first, _ := policy.Step(noon, limiter.Tally{}, 1)
	kept := string(holder.Append(nil, &first))

	wrong := 0
	for range 1000 {
		shown, err := holder.Verify(noon, kept)
		if err != nil {
			log.Fatal(err)
		}
		if _, verdict := policy.Step(noon, shown.Tally, 1); verdict.Admitted {
			wrong++ // and the next token goes into the attacker's bin
		}
	}
	fmt.Println("believed:", wrong, "of 1000 admitted")

	// Right: merge it with what this instance remembers. Then a token can make
	// the limiter stricter, and never looser.
	memory := limiter.NewMemory(0, policy.Len())
	right := 0
	for range 1000 {
		shown, err := holder.Verify(noon, kept)
		if err != nil {
			log.Fatal(err)
		}
		candidate := limiter.Candidate{Key: memory.Key(identity), Shown: shown.Tally}
		if _, verdict := memory.Take(noon, policy, &candidate, 1); verdict.Admitted {
			right++
		}
	}
	fmt.Println("merged:", right, "of 1000 admitted, after the first")
	// Output:
	// believed: 1000 of 1000 admitted
	// merged: 4 of 1000 admitted, after the first
}
