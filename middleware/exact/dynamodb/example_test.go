// SPDX-License-Identifier: Apache-2.0

package dynamodb_test

import (
	"log"

	aws "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/dynamodb"
)

// A counter in a table. A round trip takes milliseconds: set middleware.Exact.Deadline to 200 ms or so.
func ExampleNew() {
	client := aws.New(aws.Options{Region: "eu-central-1"}) // or by the SDK's package config
	store, err := dynamodb.New(client, dynamodb.Config{Table: "tallies"})
	if err != nil {
		log.Fatal(err)
	}
	counter, err := cas.New(store, cas.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_ = counter // for middleware.Exact.Counter
}
