// SPDX-License-Identifier: Apache-2.0

// Package redis is an exact counter on Redis 6.2 or later, or Valkey, for any number of
// processes and machines.
//
// What it promises:
//
//   - Each call is one script on the server, and one round trip. It checks and charges all
//     limits in one step, by the server's clock. When that clock steps back, an account's time
//     stands still, for at most its longest window; an account from further ahead begins anew,
//     which is logged. Concurrent calls for one key travel as one (see [engine.Merge]). Only a
//     call for now on a key with booked calls takes two trips.
//   - A call whose answer is lost is retried under its ID, and counted once. A script
//     without an ID is never repeated.
//   - Redis acknowledges before its replicas have heard. A failover forgets the rest, and
//     the limit is exceeded by as much: in a test on one machine 58 to 76 calls of a busy
//     counter at 1 ms of delay, about 1000 at 20 ms. WAIT 1 after each call lost none in
//     four kills, at two thirds of the throughput, but promises nothing: a replica that
//     has not heard can still be promoted. This package does not send it. On the server,
//     min-replicas-to-write and min-replicas-max-lag bound how long a master that is cut
//     off goes on acknowledging. Counts that must survive a failover need a database that
//     commits on a majority, behind the same interface.
//   - A call carries its deadline, by the server's clock as its last answers told it.
//     The server does not count a call after its deadline, so a flood does not keep it
//     busy with abandoned calls.
//   - In a cluster each node is a part with places of its own ([engine.Partitioned]): a node
//     that hangs does not block the others. CLUSTER SLOTS tells which slots it has: at
//     most every ten seconds, and each second while calls fail.
//   - A restart forgets what was not on disk: all of it without AOF, up to a second with
//     appendfsync everysec, nothing with always.
//   - A server that evicts keys when its memory is full gives away quotas. Set
//     maxmemory-policy to noeviction: calls then fail, and the policy's choice holds. A
//     server with another setting is rejected: INFO asks before the first call, after
//     each new connection and every ten seconds. Between, it may evict unnoticed. A Redis
//     user without the right to ask is logged.
//
// A full server fails every call, also for keys that it has, and is an outage like any other: keep its memory
// for counters alone, or watch it. A damaged or foreign value at the key of an account fails with
// [ErrUnreadable], is not changed, and is logged with the key. In a cluster, calls for the keys of a slot
// fail while the slot is moved. A user of an ACL needs TIME, GET, SET, HMGET, HSET, EXPIRE,
// EXPIREAT, DEL, UNLINK, ZADD, ZREM, ZRANGE, ZRANGEBYSCORE, ZREMRANGEBYSCORE, EVAL, EVALSHA and INFO,
// and SCAN to list accounts; in a cluster CLUSTER SLOTS, which the client asks for as well.
//
// In a cluster the keys of one account share a hash tag. Every key expires when nothing of it counts
// any more, and as much later again, at most an hour, in case the server's clock is wrong for a moment.
// The keys of an account are {tag}, a string that holds all of its counts and up to 32 IDs,
// {tag}:t:<limit> for the entries of a sliding log or a rolling day, {tag}:s:0 and {tag}:s:1 for the
// IDs of a busy account, each behind the prefix; the tag is the hash of policy and key. The last 16
// refusals under IDs are remembered. Refunds are in the string, at most 1 KB.
//
// An account has a version. An instance fails by name for an account of another version, an outage
// of that key, and counts nothing: a rolling deploy gives no quota away.
//
// The client is rueidis, which sends concurrent commands together. A counter of
// Open sends a lone call to a single server on a connection of its own, in the
// call's goroutine, if the deadline is at most a second away. Only the deadline
// ends it there, so a cancelled caller waits until then. With a longer deadline
// it takes the shared connection, which is half as slow again for a lone caller
// (54 µs for 37). A client given to New needs AlwaysPipelining: without it a
// lone call that meets its deadline closes the connection of the others. At
// most 512 calls of a node are unanswered at once, abandoned ones included; one
// more fails with [exact.ErrBusy]. Package middleware/exact/lease makes fewer
// calls still.
//
// While calls are booked ([exact.Call] with Ahead) an account also holds the line of each bucket:
// 14 bytes, and 16 for each returned place. It keeps at most 64 of these. The IDs of charges in
// that time are in {tag}:s:0 and {tag}:s:1. Calls with Ahead have scripts of their own. Other calls
// stay as cheap; if one is booked on their key, they ask again with the script that knows.
//
// It does not run under GODEBUG=fips140=only: the client names scripts by SHA-1, as Redis
// does, and panics there.
package redis
