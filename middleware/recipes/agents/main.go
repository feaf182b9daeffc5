// SPDX-License-Identifier: Apache-2.0

// Command agents gives an agent, and all agents that it starts, one budget for their tools, and a quota of each tool. The
// documentation prints parts of it, in docs/recipes.md.
//
// What bites: agents send no token back, so N instances admit N budgets; with peers little more than one, with Config.Exact one. A tool that
// refuses takes nothing from the budget. With Config.Exact a budget that refuses has taken from the tool.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	secret := []byte(os.Getenv("TALLYSTICK_SECRET")) // the same on every instance
	h, err := budget(middleware.Config{
		Limits:  []middleware.Limit{{Name: "budget", Quota: 100, Window: 24 * time.Hour}},
		Secrets: [][]byte{secret},
	}, secret, map[string]tool{
		"search": {quota: 50, price: 1, run: say("a page")},
		"mail":   {quota: 5, price: 10, run: say("sent")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first agent's credential:", newTree(secret))
	log.Fatal(http.ListenAndServe(":8080", h))
}

func say(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, text) })
}
