//go:build !race

package storeless_test

const crowd = 1_000_000
