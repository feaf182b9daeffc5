// SPDX-License-Identifier: Apache-2.0

// Package file is an exact counter in a file: embedded, durable, for all instances
// that one process holds.
//
// What it promises, and what not:
//
//   - A call that was answered is counted, whatever becomes of the process: the answer
//     waits until the call is on disk. After a power cut that is as true as the disk is
//     honest: one that says it has written what it has not loses that much, and it cannot
//     be told from a crash.
//   - A call whose answer was lost in a crash may be counted: never more pass than the
//     limit, perhaps as many fewer as were under way.
//   - A crash in the middle of a commit leaves a part of it, which nobody was told of:
//     that is cut off when the file is opened. All else that is not as it was written is
//     refused with [ErrDamaged], the last commit too; a file is never taken for an empty
//     one. A copy made while a counter runs may be refused.
//   - One kind of damage cannot be told from such a crash: zeros in the last commit, or from
//     some commit on to the end, as a disk leaves them that has lost a sector or never wrote
//     it. The file opens, and counts what was on disk before that commit. Where anything of a
//     later commit is left, the file is refused.
//   - After a failed fsync nobody knows what the disk holds: the counter stops for good,
//     and one that is opened anew counts on from what is there.
//   - A full disk is load, not failure. Room is reserved ahead: new keys are refused with
//     [exact.ErrFull] while those that are there are counted on, then they too, until there
//     is room again. File systems that copy on write (btrfs, ZFS) reserve nothing: there
//     both are refused at once.
//   - One process at a time: a second is told so. Several processes want a server, see
//     package redis beside this one. Network file systems, whose locks and fsync differ,
//     are not for it. A file that is renamed, removed or replaced under its counter stops it.
//   - IDs of calls, admitted or refused, are remembered in memory alone, for [exact.IDLife] at
//     least: what would ask again is in the process that has ended.
//   - All accounts are in memory: some 120 bytes for a key of one limit, however long it is, and
//     what a sliding log or a rolling day keeps; beside IDs nothing else grows. Opening reads all
//     of the file, 1 to 2.5 µs of a processor for each key.
//
// The file is a snapshot of all accounts and a log of what was counted since. Calls that
// come while others are being written are written together, so that fsync costs many at once
// no more than one caller. A refusal writes nothing. When the file is 16 MiB larger than
// twice its accounts, a smaller one is written beside it, with ".next" behind its name,
// while calls are counted, and takes its place; accounts that count nothing any more are
// not in it. So it wants a directory in which it may make files, and room for both. It is
// tested on Linux; on Windows the lock is a file beside, with ".lock" behind the name.
package file
