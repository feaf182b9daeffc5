// SPDX-License-Identifier: Apache-2.0

// Command lambda is a Lambda function with a limiter, behind API Gateway, a function URL or a
// load balancer. The documentation prints parts of it, in docs/recipes.md.
//
// What bites: behind a load balancer (ALB) the adapter has no address of the client, and every
// request is refused, 403 identity-unknown, until Config.Identity is set as here. Each function instance serves one
// request at a time: an attacker chooses their number, up to the concurrency that you permit.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	cfg := middleware.Config{
		Policy:     "contact",
		Limits:     []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets:    [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		MaxClients: 1024,                                             // of one instance at once
	}
	if err := identify(&cfg, os.Getenv("EVENTS")); err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(function(limit.Handler(http.HandlerFunc(contact)), os.Getenv("EVENTS")))
}

// identify names the client, by the kind of events that the function gets.
func identify(cfg *middleware.Config, events string) (err error) {
	if events == "alb" { // nothing but the load balancer may invoke the function
		cfg.Identity, err = middleware.InsecureNoPeer("X-Forwarded-For")
	}
	return err // of API Gateway and function URLs the adapter takes the address over
}

// function makes a Lambda function of h.
func function(h http.Handler, events string) any {
	switch events {
	case "alb":
		return httpadapter.NewALB(h).ProxyWithContext
	case "rest": // API Gateway, payload format 1.0
		return httpadapter.New(h).ProxyWithContext
	default: // API Gateway, payload format 2.0, and function URLs
		return httpadapter.NewV2(h).ProxyWithContext
	}
}

func contact(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "Thank you.")
}
