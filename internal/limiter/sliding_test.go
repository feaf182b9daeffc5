// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/tallystick/tallystick/storeless"
)

func TestSlidingWindow(t *testing.T) {
	five := storeless.Limit{Quota: 5, Window: minute}
	play(t, []scenario{
		{"a burst, and the way back", []storeless.Limit{five}, []row{
			{at: 0, cost: 1, admitted: true, left: 4, reset: 120},
			{at: 0, cost: 1, admitted: true, left: 3, reset: 90},
			{at: 0, cost: 1, admitted: true, left: 2, reset: 80},
			{at: 0, cost: 1, admitted: true, left: 1, reset: 75},
			{at: 0, cost: 1, admitted: true, left: 0, reset: 72},
			{at: 0, cost: 1, wait: 72, reset: 72},
			{at: minute - tick, cost: 1, wait: 13, reset: 13},
			{at: minute, cost: 1, wait: 12, reset: 12},
			{at: 72*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 72 * second, cost: 1, admitted: true, left: 0, reset: 12},
			{at: 84*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 84 * second, cost: 1, admitted: true, left: 0, reset: 12},
		}},
		{"the previous window weighs until its last microsecond", []storeless.Limit{five}, []row{
			{at: 0, cost: 5, admitted: true, reset: 72},
			{at: 2*minute - tick, cost: 5, wait: 1, reset: 1, left: 4},
			{at: 2*minute - tick, cost: 4, admitted: true, left: 0, reset: 1},
			{at: 2 * minute, cost: 1, admitted: true, left: 0, reset: 15},
		}},
		{"2L-1 in one window's length is the worst", []storeless.Limit{five}, []row{
			{at: minute - tick, cost: 5, admitted: true, reset: 13},
			{at: minute, cost: 1, wait: 12, reset: 12},
			{at: 2*minute - 2*tick, cost: 5, wait: 1, left: 4, reset: 1},
			{at: 2*minute - 2*tick, cost: 4, admitted: true, reset: 1},
		}},
		{"a part of a microsecond is waited for too", []storeless.Limit{{Quota: 8, Window: minute}}, []row{
			{at: 0, cost: 7, admitted: true, left: 1, reset: 69},
			{at: minute + 428_571*tick, cost: 7, wait: 52, reset: 52, left: 1},
			{at: minute + 51*second + 428_571*tick, cost: 7, wait: 1, reset: 1, left: 6},
			{at: minute + 52*second + 428_571*tick, cost: 7, admitted: true, left: 0, reset: 8},
		}},
		{"two windows deep nothing is left of it", []storeless.Limit{five}, []row{
			{at: 0, cost: 5, admitted: true, reset: 72},
			{at: 2 * minute, cost: 0, admitted: true, left: 5},
			{at: 2 * minute, cost: 5, admitted: true, reset: 72},
			{at: 1000 * hour, cost: 5, admitted: true, reset: 72},
		}},
		{"a window without requests between two with", []storeless.Limit{five}, []row{
			{at: 30 * second, cost: 3, admitted: true, left: 2, reset: 50},
			{at: 150 * second, cost: 5, admitted: true, reset: 42},
		}},
		{"costs: 0 peeks, the quota fits, more never does", []storeless.Limit{five}, []row{
			{at: 0, cost: 0, admitted: true, left: 5},
			{at: 0, cost: 6, left: 5},
			{at: 0, cost: 3, admitted: true, left: 2, reset: 80},
			{at: 0, cost: 0, admitted: true, left: 2, reset: 80},
			{at: 0, cost: 3, wait: 80, left: 2, reset: 80},
			{at: 0, cost: 5, wait: 120, left: 2, reset: 120},
			{at: 0, cost: 6, left: 2, reset: 80},
			{at: 0, cost: 1 << 40, left: 2, reset: 80},
			{at: 0, cost: 2, admitted: true, reset: 72},
			{at: 0, cost: 0, admitted: true, reset: 72},
		}},
		{"a refusal charges nothing", []storeless.Limit{five}, []row{
			{at: 0, cost: 4, admitted: true, left: 1, reset: 75},
			{at: second, cost: 2, wait: 74, left: 1, reset: 74},
			{at: second, cost: 2, wait: 74, left: 1, reset: 74},
			{at: second, cost: 1, admitted: true, reset: 71},
		}},
		{"a quota applies at once, lowered or raised", []storeless.Limit{five, {Quota: 2, Window: minute}, {Quota: 9, Window: minute}}, []row{
			{at: 0, cost: 4, admitted: true, left: 1, reset: 75},
			{at: 0, cost: 1, wait: 105, reset: 105, under: 1},
			{at: 0, cost: 0, admitted: true, reset: 105, under: 1},
			{at: 0, cost: 5, admitted: true, left: 0, reset: 67, under: 2},
			{at: 0, cost: 1, wait: 94, reset: 94},
			{at: 0, cost: 3, left: 0, reset: 114, under: 1},
			{at: 105 * second, cost: 1, wait: 9, reset: 9, under: 1},
			{at: 114 * second, cost: 1, admitted: true, reset: 6, under: 1},
		}},
		{"a window of one second", []storeless.Limit{{Quota: 3, Window: second}}, []row{
			{at: 0, cost: 3, admitted: true, reset: 2},
			{at: second - tick, cost: 1, wait: 1, reset: 1},
			{at: second + second/3, cost: 1, wait: 1, reset: 1},
			{at: second + second/3 + tick, cost: 1, admitted: true, reset: 1},
			{at: 3 * second, cost: 3, admitted: true, reset: 2},
		}},
	})
}

func TestFixedWindow(t *testing.T) {
	five := storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: minute}
	two := five
	two.Quota = 2
	play(t, []scenario{
		{"a boundary forgets", []storeless.Limit{five}, []row{
			{at: 20 * second, cost: 4, admitted: true, left: 1, reset: 40},
			{at: minute - tick, cost: 2, wait: 1, left: 1, reset: 1},
			{at: minute - tick, cost: 1, admitted: true, reset: 1},
			{at: minute, cost: 5, admitted: true, reset: 60}, // 2L within a microsecond
			{at: minute, cost: 1, wait: 60, reset: 60},
			{at: 2*minute - tick, cost: 1, wait: 1, reset: 1},
			{at: 2 * minute, cost: 0, admitted: true, left: 5},
			{at: 90 * day, cost: 5, admitted: true, reset: 60},
		}},
		{"costs: 0 peeks, the quota fits, more never does", []storeless.Limit{five}, []row{
			{at: 0, cost: 6, left: 5},
			{at: 0, cost: 5, admitted: true, reset: 60},
			{at: 0, cost: 0, admitted: true, reset: 60},
			{at: 0, cost: 6, reset: 60},
		}},
		{"a quota applies at once, lowered or raised", []storeless.Limit{five, two}, []row{
			{at: 0, cost: 3, admitted: true, left: 2, reset: 60},
			{at: 0, cost: 1, wait: 60, reset: 60, under: 1},
			{at: 0, cost: 0, admitted: true, reset: 60, under: 1},
			{at: 0, cost: 2, admitted: true, reset: 60},
			{at: minute, cost: 2, admitted: true, reset: 60, under: 1},
			{at: minute, cost: 3, admitted: true, reset: 60},
		}},
	})
}
