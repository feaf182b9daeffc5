// SPDX-License-Identifier: Apache-2.0

// Package dynamodb keeps exact counts in a table of Amazon DynamoDB, for programs that have no
// server of their own:
//
//	store, err := dynamodb.New(client, dynamodb.Config{Table: "tallies"})
//	counter, err := cas.New(store, cas.Config{})
//
// It is a [cas.Store]: package middleware/exact/cas has what a call costs, what races do, and
// whose clock counts. The table has the partition key "name", a string, no sort key, and
// "expires" as the attribute of its time to live, without which it grows for ever:
//
//	aws dynamodb create-table --table-name tallies --billing-mode PAY_PER_REQUEST \
//	  --attribute-definitions AttributeName=name,AttributeType=S \
//	  --key-schema AttributeName=name,KeyType=HASH
//	aws dynamodb update-time-to-live --table-name tallies \
//	  --time-to-live-specification Enabled=true,AttributeName=expires
//
// The program needs dynamodb:GetItem and dynamodb:PutItem on it.
//
// What it promises, and what it does not:
//
//   - An item is put on the condition that its revision is the one that was read, by a
//     consistent read. A revision is random: one that was deleted and made anew has another.
//   - What was answered is on disk in several data centers of one region. A global table
//     of the usual kind is not one counter: regions do not see each other's conditions.
//     Count in one region.
//   - No call is repeated by the SDK, whatever retryer the client has: a put whose answer was
//     lost would fail its own condition when it is repeated, as if the race had been lost.
//   - A partition takes 1000 puts of 1 kB a second. More for one key are throttled, asked
//     once more, and then [exact.ErrBusy]: load, answered 503.
//   - An admitted call costs a read and a write for each kB of the account: one or two where
//     calls are rare, and up to five on a busy key, whose account carries the last 128 IDs. A
//     sliding log has seven bytes for each charge. A refusal costs a read.
//   - A round trip takes milliseconds, and an admitted call two of them, one after the other:
//     set Exact.Deadline to 200 ms or so.
package dynamodb
