package token_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// secrets has one secret, and stands for what a program reads from its
// configuration. A real one is 32 bytes of crypto/rand, not a sentence.
var secrets = [][]byte{[]byte("not a secret: it is in an example")}

// noon is when the examples happen; a program passes time.Now().
var noon = time.Unix(1_700_000_000, 0)

func contactPolicy() *storeless.Policy {
	policy, err := storeless.Compile("contact", []storeless.Limit{{Quota: 5, Window: time.Minute}})
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
		var tally storeless.Tally
		if verified, err := holder.Verify(shown, noon); err == nil {
			tally = verified.Tally
		} // a refused token is as if absent
		tally, verdict := policy.Step(noon, tally, 1)
		shown = string(holder.Append(nil, &tally))
		fmt.Println(verdict.Admitted, verdict.Limits[0].Remaining, len(shown), "bytes")
	}

	// Nobody else can use it.
	stranger := codec.Holder([]byte("203.0.113.9"))
	_, err = stranger.Verify(shown, noon)
	fmt.Println(errors.Is(err, token.ErrHolder))
	// Output:
	// true 4 207 bytes
	// true 3 207 bytes
	// true
}

// A service that only wants to read tokens needs no part of this package but
// the key function and the claims.
func ExampleKeyfunc() {
	policy := contactPolicy()
	codec, err := token.New(secrets, policy)
	if err != nil {
		log.Fatal(err)
	}
	holder := codec.Holder([]byte("198.51.100.1"))
	tally, _ := policy.Step(noon, storeless.Tally{}, 3)
	tok := string(holder.Append(nil, &tally))

	keyfunc, err := token.Keyfunc("contact", secrets)
	if err != nil {
		log.Fatal(err)
	}
	var claims token.Claims
	_, err = jwt.ParseWithClaims(tok, &claims, keyfunc,
		jwt.WithValidMethods([]string{"HS256"}),
		jwt.WithAudience("contact"),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return noon }))
	fmt.Println(err, claims.Policy, time.Unix(claims.Expires, 0).Sub(noon), claims.Tally[2])
	// Output:
	// <nil> contact 1m40s 3
}

// The numbers of the package documentation.
func ExampleClaims() {
	policy, err := storeless.Compile("contact", []storeless.Limit{
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
	tally, _ := policy.Step(noon, storeless.Tally{}, 1)
	for _, segment := range strings.Split(string(holder.Append(nil, &tally)), ".")[:2] {
		text, err := base64.RawURLEncoding.DecodeString(segment)
		fmt.Println(string(text), err)
	}
	// Output:
	// {"alg":"HS256","kid":"z5_gN","typ":"tally+jwt"} <nil>
	// {"aud":"contact","sub":"F0HO5fqE4v8","exp":1700092800,"t":[8060369,1547,1,0,1872652,2,1,0,13735150,92790000000,0,0]} <nil>
}
