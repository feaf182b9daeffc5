//go:build !race

package token

// raceEnabled says that the race detector watches.
const raceEnabled = false
