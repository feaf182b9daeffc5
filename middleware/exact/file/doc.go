// SPDX-License-Identifier: Apache-2.0

// Package file is an exact counter in a file: embedded, durable, for all instances
// that one process holds.
//
// What it promises:
//
//   - A call that was answered stays counted if the process crashes: the answer waits
//     until the call is on disk. After a power cut this depends on an honest disk: writes
//     that a disk falsely reports as done are lost, and look like a crash.
//   - A call whose answer was lost in a crash may be counted: the limit is never
//     exceeded, and may lose the calls that were under way.
//   - A crash in the middle of a commit leaves a part of it that answered no call:
//     opening the file cuts it off. All other damage is refused with [ErrDamaged], in
//     the last commit too; a file is never taken for an empty one. A copy made while a
//     counter runs may be refused.
//   - One kind of damage looks like such a crash: zeros in the last commit, or from some
//     commit to the end, where a disk lost a sector or never wrote it. The file opens, and
//     counts what was on disk before that commit. If anything of a later commit is left, the
//     file is refused.
//   - After a failed fsync the content of the disk is unknown: the counter stops for
//     good. Open it again to count on from what is there.
//   - A full disk is load, not failure. Room is reserved ahead: first new keys are refused
//     with [exact.ErrFull], then known keys too, until there is room again. File systems
//     that copy on write (btrfs, ZFS) reserve nothing: there both are refused at once.
//   - One process at a time: a second gets an error. Several processes need a server, such as
//     package redis. Do not use network file systems: their locks and fsync differ. A counter
//     stops when its file is renamed, removed or replaced.
//   - IDs of calls, admitted or refused, are kept in memory alone, for at least
//     [exact.IDLife]: a caller that would retry ends with the process.
//   - All accounts are in memory: some 120 bytes for a key of any length with one limit, and the
//     entries of a sliding log or a rolling day. Only IDs grow besides. Opening reads the whole
//     file, 1 to 2.5 µs of a processor for each key.
//
// The file is a snapshot of all accounts and a log of what was counted since. Calls that
// come during a write are written together, so one fsync serves many. A refusal writes
// nothing. When the file is 16 MiB larger than twice its accounts, a smaller one replaces
// it, without idle accounts. It is written beside, with ".next" behind its name, while calls
// are counted. So the counter needs a directory in which it may make files, and room for
// both. It is tested on Linux; on Windows the lock is a file beside, with ".lock" behind the
// name.
package file
