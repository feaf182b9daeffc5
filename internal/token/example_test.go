// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"encoding/base64"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
)

// secrets has one secret, and stands for what a program reads from its
// configuration. A real one is 32 bytes of crypto/rand, not a sentence.
var secrets = [][]byte{[]byte("not a secret: it is in an example")}

// noon is when the examples happen; a program passes time.Now().
var noon = time.Unix(1_700_000_000, 0)

// The numbers of the package documentation.
func ExampleClaims() {
	policy, err := limiter.Compile("contact", []limiter.Limit{
		{Quota: 5, Window: time.Minute},
		{Quota: 50, Window: 24 * time.Hour},
		{Name: "burst", Algorithm: limiter.TokenBucket, Quota: 6, Window: time.Minute},
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
	own := token.Own{ID: [6]byte{1, 2, 3, 4, 5, 6}, Expires: noon.Add(48 * time.Hour).Unix()}
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
	// {"aud":"contact","fam":"AQIDBAUG","exp":1700172800,"t":[]} <nil>
	// {"aud":"contact","fam":"AQIDBAUG","exp":1700172800,"t":[8060369,2880,1,0,1872652,2,1,0,13735150,172790000000,0,0]} <nil>
	// {"aud":"contact","sub":"Jg1a74bJ","fam":"AQIDBAUG","exp":1700172800,"t":[]} <nil>
}
