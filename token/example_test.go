// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"crypto/rand"
	"fmt"
	"log"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A client carries what it has used, and cannot change it.
func Example() {
	// A real secret is the same on each instance, as openssl rand -base64 32 makes one.
	codec, err := token.New(storeless.Config{
		Policy: "jobs",
		Limits: []storeless.Limit{{Quota: 10, Window: time.Minute}},
	}, [][]byte{[]byte(rand.Text() + rand.Text())})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	used := storeless.Tally{{At: now.Unix() / 60, Cur: 4}} // as Limiter.Take returns it

	tok := codec.Sign("acme", used)
	shown, err := codec.Verify(now, "acme", tok)
	fmt.Println(shown[0].Cur, err)
	shown, err = codec.Verify(now, "another tenant", tok)
	fmt.Println(shown[0].Cur, err)
	// Output:
	// 4 <nil>
	// 0 token: held by another identity
}

// A service that only wants to read tokens needs no part of this package but the key function.
func ExampleKeyfunc() {
	const shown = "eyJhbGciOiJIUzI1NiIsImtpZCI6Ino1X2ciLCJ0eXAiOiJ0K2p3dCJ9." +
		"eyJhdWQiOiJjb250YWN0Iiwic3ViIjoiSmcxYTc0YkoiLCJleHAiOjE3MDAwMDAxMDAsInQiOls4MDYwMzY5LDIsMywwXX0." +
		"_u7wTgzt6EHsAuaDcEj78qDuMj8gIfMrVPh0GT2JGfo"
	noon := time.Unix(1_700_000_000, 0)

	// A real secret is 32 bytes of crypto/rand, not a sentence.
	keyfunc, err := token.Keyfunc("contact", [][]byte{[]byte("not a secret: it is in an example")})
	if err != nil {
		log.Fatal(err)
	}
	var claims struct {
		jwt.RegisteredClaims         // aud, sub and exp
		OwnTally             string  `json:"fam"`
		Tally                []int64 `json:"t"` // id, age, current, previous of each limit
	}
	_, err = jwt.ParseWithClaims(shown, &claims, keyfunc,
		jwt.WithValidMethods([]string{"HS256"}),
		jwt.WithAudience("contact"),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return noon }))
	fmt.Println(err, claims.Audience, claims.ExpiresAt.Sub(noon), claims.Tally[2])
	// Output:
	// <nil> [contact] 1m40s 3
}
