//go:build !race

package storeless_test

const crowd = 10_000_000
