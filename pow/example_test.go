// SPDX-License-Identifier: Apache-2.0

package pow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/tallystick/tallystick/pow"
)

var (
	secret = []byte("an example, not random, 32 bytes")
	now    = time.Date(2026, time.October, 1, 12, 0, 0, 0, time.UTC)
)

func Example() {
	issuer, err := pow.New(pow.Config{Secrets: [][]byte{secret}})
	if err != nil {
		log.Fatal(err)
	}
	visitor := pow.Binding{Client: []byte("192.0.2.1"), Route: "contact"}

	// The server asks. The header goes into a Tallystick-Challenge field.
	challenge, err := issuer.Issue(now, visitor, pow.DefaultWork)
	if err != nil {
		log.Fatal(err)
	}
	header := challenge.Header()

	// The client looks at the price, pays, and sends the proof back in a
	// Tallystick-Proof field.
	offer, err := pow.ParseHeader(header)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("asked:", offer.Work, "hashes within", offer.TTL)
	ctx, cancel := context.WithTimeout(context.Background(), offer.TTL)
	defer cancel()
	proof, err := pow.Solve(ctx, offer.Text, pow.SolveOptions{MaxWork: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}

	// The server checks, with the binding of the request that brings the proof.
	receipt, err := issuer.Verify(now.Add(time.Second), visitor, proof)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paid:", receipt.Work, "hashes, good before", receipt.Expires.Format(time.TimeOnly))
	// Output:
	// asked: 262144 hashes within 10s
	// paid: 262144 hashes, good before 12:00:11
}

// A refusal has one of a few names. To the client all of them mean the same: here
// is a fresh challenge.
func ExampleIssuer_Verify_refusals() {
	issuer, err := pow.New(pow.Config{Secrets: [][]byte{secret}})
	if err != nil {
		log.Fatal(err)
	}
	atHome := pow.Binding{Client: []byte("192.0.2.1"), Route: "contact"}
	challenge, err := issuer.Issue(now, atHome, pow.MinWork)
	if err != nil {
		log.Fatal(err)
	}
	proof, err := pow.Solve(context.Background(), challenge.Text, pow.SolveOptions{})
	if err != nil {
		log.Fatal(err)
	}

	onTheTrain := pow.Binding{Client: []byte("198.51.100.7"), Route: "contact"}
	_, err = issuer.Verify(now, onTheTrain, proof)
	fmt.Println(errors.Is(err, pow.ErrBinding), err)
	_, err = issuer.Verify(now.Add(time.Minute), atHome, proof)
	fmt.Println(errors.Is(err, pow.ErrExpired), err)
	_, err = issuer.Verify(now, atHome, "eyJhbGciOiJub25lIn0..")
	fmt.Println(errors.Is(err, pow.ErrMalformed), err)
	// Output:
	// true pow: challenge bound to another client, route or tier
	// true pow: challenge outside its lifetime
	// true pow: malformed: proof is not <challenge>~<answers>
}

// WRONG: a server that believes ParseHeader. It has no key and reads whatever it is
// given: a client can write a challenge that claims work that was never done.
func ExampleParseHeader_wrongOnAServer() {
	stranger, err := pow.New(pow.Config{Secrets: [][]byte{[]byte("the secret of somebody else, yes")}})
	if err != nil {
		log.Fatal(err)
	}
	visitor := pow.Binding{Client: []byte("192.0.2.1"), Route: "contact"}
	forged, err := stranger.Issue(now, visitor, pow.MaxWork)
	if err != nil {
		log.Fatal(err)
	}
	claim, err := pow.ParseHeader(forged.Text)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("claimed:", claim.Work)

	// RIGHT: only a receipt says what was paid.
	issuer, err := pow.New(pow.Config{Secrets: [][]byte{secret}})
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := issuer.Verify(now, visitor, forged.Text+"~0.0.0.0.0.0.0.0")
	fmt.Println("paid:", receipt.Work, err)
	// Output:
	// claimed: 4294967296
	// paid: 0 pow: challenge not signed by a key of the ring
}

// WRONG: verifying under the binding that the client names instead of the one
// that the request has. Here the client picks the route from a form field, and a
// cheap proof for one route opens another.
func ExampleBinding_wrongSource() {
	issuer, err := pow.New(pow.Config{Secrets: [][]byte{secret}})
	if err != nil {
		log.Fatal(err)
	}
	client := []byte("192.0.2.1")
	cheap, err := issuer.Issue(now, pow.Binding{Client: client, Route: "newsletter"}, pow.MinWork)
	if err != nil {
		log.Fatal(err)
	}
	proof, err := pow.Solve(context.Background(), cheap.Text, pow.SolveOptions{})
	if err != nil {
		log.Fatal(err)
	}

	routeFromForm := "newsletter" // sent to /sign-up
	_, err = issuer.Verify(now, pow.Binding{Client: client, Route: routeFromForm}, proof)
	fmt.Println("wrong:", err)

	// RIGHT: the route is the one that is being served, and its price is asked.
	receipt, err := issuer.Verify(now, pow.Binding{Client: client, Route: "sign-up"}, proof)
	fmt.Println("right:", err, receipt.Work >= pow.DefaultWork)
	// Output:
	// wrong: <nil>
	// right: pow: challenge bound to another client, route or tier false
}
