// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// A log-in by user name counts wrong passwords alone, from whatever addresses they come.
func ExampleMiddleware_Decide_login() {
	names, err := middleware.New(middleware.Config{
		Policy: "login-name",
		Limits: []middleware.Limit{
			{Name: "attempts", Quota: 100, Window: time.Hour},
			{Name: "failures", Quota: 2, Window: 15 * time.Minute},
		},
		ByOutcome: &middleware.ByOutcome{Limits: []string{"failures"}},
		Secrets:   [][]byte{exampleSecret},
		Now:       noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	login := func(ctx context.Context, name, password string) string {
		try, err := names.Decide(ctx, middleware.Ask{Identity: middleware.Principal(name)})
		switch {
		case err != nil:
			return "who are you?"
		case !try.Allowed:
			return "too many wrong passwords"
		case password != "swordfish":
			try.Charge(true)
			return "wrong password"
		}
		try.Charge(false)
		return "welcome"
	}
	ctx := context.Background()
	for _, password := range []string{"swordfish", "swordfish", "swordfish", "123456", "password", "qwerty", "swordfish"} {
		fmt.Println(login(ctx, "alice", password))
	}
	fmt.Println(login(ctx, "", "swordfish"))

	// Output:
	// welcome
	// welcome
	// welcome
	// wrong password
	// wrong password
	// too many wrong passwords
	// too many wrong passwords
	// who are you?
}
