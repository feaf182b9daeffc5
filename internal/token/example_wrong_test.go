// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"fmt"
	"log"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
)

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
