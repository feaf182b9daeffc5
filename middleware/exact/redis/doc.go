// SPDX-License-Identifier: Apache-2.0

// Package redis is an exact counter on Redis 6.2 or later, or Valkey, for any number of
// processes and machines.
//
// What it promises, and what not:
//
//   - Each call is one script on the server, and one round trip: all limits are checked
//     and charged as one step, by the server's clock, which is held where it was when it
//     steps back, for as long as the account's longest window: one from further ahead
//     begins anew, which is logged. Concurrent calls for one key travel as one (see
//     [engine.Merge]). Only a call for now whose key has calls that are booked takes two trips.
//   - A call whose answer is lost is asked for again under its ID, and counted once. No
//     script is repeated without.
//   - Redis acknowledges before its replicas have heard. A failover forgets what they had
//     not: in a test on one machine 58 to 76 calls of a busy counter at 1 ms of delay,
//     about 1000 at 20 ms, and the limit is exceeded by so many. WAIT 1 after each call
//     lost none in four kills, at two thirds of the throughput, but promises none: a
//     replica that has not heard can still be promoted. This package does not send it; on
//     the server, min-replicas-to-write and min-replicas-max-lag bound how long a master
//     that is cut off goes on acknowledging. What must survive a failover wants a
//     database that commits on a majority, behind the same interface.
//   - A call tells the server until when its answer is waited for, by the server's own
//     clock as it was in its last answers. What the server finds too late it does not
//     count: a flood does not keep it busy with what nobody waits for.
//   - In a cluster each node has places of its own, and is an [engine.Parted] of it: one
//     that hangs keeps nobody from the others. Which slots it has is asked with CLUSTER
//     SLOTS, every ten seconds at most, and each second where calls fail.
//   - A restart forgets what was not on disk: all of it without AOF, up to a second with
//     appendfsync everysec, nothing with always.
//   - A server that evicts keys when its memory is full gives away quotas. Set
//     maxmemory-policy to noeviction: calls then fail, and the policy's choice holds. A
//     server that says otherwise is refused: it is asked with INFO before the first call,
//     after each new connection and every ten seconds. Between, it may evict unnoticed. A
//     user who may not ask is logged.
//
// A server that is full fails every call, also for keys that it has, and is an outage
// like any other: keep its memory for counters alone, or watch it. What is at the key of an account
// and is none, or not all of one, fails with [ErrUnreadable], is not changed, and is logged with the key.
// In a cluster, calls
// for the keys of a slot fail while the slot is moved. A user of an ACL needs TIME, GET,
// SET, HGETALL, HMGET, HSET, EXPIRE, EXPIREAT, EXISTS, DEL, UNLINK, ZADD, ZREM, ZRANGE,
// ZRANGEBYSCORE, ZREMRANGEBYSCORE, EVAL, EVALSHA and INFO, and SCAN to list accounts; in a cluster CLUSTER SLOTS, which
// the client asks for as well.
//
// In a cluster the keys of one account share a hash tag, and every key expires when
// nothing of it counts any more, and as much later again, an hour at most: a server forgets by what its
// clock says at a moment. The keys of an account are {tag}, a string that holds all of
// its counts and up to 32 IDs, {tag}:t:<limit> for the entries of a sliding log or a rolling
// day, {tag}:s:0 and {tag}:s:1 for the IDs of a busy account, each behind the prefix; the tag is
// the hash of policy and key. Of refusals under IDs the last 16 are remembered. What came back by
// refunds is in the string, 1 KB at most.
//
// Before, a refund had a key of its own, {tag}:r:<receipt>, which is still asked for; an instance of
// before fails for an account that one of today has charged, by name, and counts nothing. Still
// before, an account was a hash. One that is met is read, and is a string from the next charge
// on, with all that it has counted; an instance of before that meets the string gets
// WRONGTYPE, an outage of that key, and counts nothing: a rolling deploy gives no quota away.
// An ID that was given to an instance of before is not known to one of today.
//
// The client is rueidis, which sends concurrent commands together. Of a counter that Open has
// made, a call that is alone on its way to a server without a cluster goes on a connection of
// its own, in its own goroutine, where its deadline is at most a second away: nothing but that ends it
// there, and a caller that is cancelled waits so long. With a longer one it takes the connection that calls
// share, which is half as slow again for a lone caller (54 µs for 37). One that New is given
// wants AlwaysPipelining: without it a lone call that meets its deadline closes the
// connection that the others are on. No more than 512 calls of a node are unanswered at
// once, with those that were given up; one more fails with [exact.ErrBusy]. See package middleware/exact/lease for
// making fewer calls still.
//
// While calls are booked ([exact.Call] with Ahead) an account holds the line of each bucket as
// well: 14 bytes and 16 for each place that was given back, of 64 at most. The IDs of what is
// charged in that time are in {tag}:s:0 and {tag}:s:1. Calls with Ahead have scripts of their own;
// others are as cheap as without them, and where one is booked they ask a second time, with the
// script that knows.
//
// It does not run under GODEBUG=fips140=only: the client names scripts by SHA-1, as Redis
// does, and panics there.
package redis
