//go:build race

package storeless_test

// crowd is how many strangers a long test can afford. The race detector makes
// each ten times as dear.
const crowd = 1_000_000
