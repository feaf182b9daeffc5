// Package file is an exact counter in a file: embedded, durable, for all instances
// that one process holds.
//
// What it promises, and what not:
//
//   - A call that was answered is counted, whatever becomes of the process: the answer
//     waits for fsync. After a power cut that is as true as the disk is honest.
//   - A call whose answer was lost in a crash may be counted: never more pass than the
//     limit, perhaps as many fewer as were under way.
//   - A file that was damaged is refused, with an error that says what to do; it is
//     never taken for an empty one. Damage to the very last commit may go unnoticed and
//     undo that one, because it looks like a crash in the middle of it.
//   - One process at a time: a second is told so. Several processes want a server, see
//     package redis beside this one. Network file systems, whose locks and fsync differ,
//     are not for it.
//   - IDs of calls are remembered in memory alone: who would ask again is in the process
//     that has ended.
//
// Calls that come while others are being written are written together, so that fsync
// costs a crowd no more than one caller. A refusal writes nothing.
//
// The engine is bbolt (go.etcd.io/bbolt).
package file
