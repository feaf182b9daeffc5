// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// errEvicts says what is wrong with a server.
var errEvicts = errors.New("the server evicts keys when its memory is full, and so gives away quotas: set maxmemory-policy to noeviction, or DangerouslyAllowEviction")

// A watch asks a server whether it would evict keys: before the first call, after each new
// connection, which may lead to another server or to one with another configuration, and
// now and then, because an operator can change the setting. Rejected: INFO within the
// script, which costs more than the call.
type watch struct {
	allowed bool // to evict
	alarms  *alarms
	every   time.Duration

	look     sync.Mutex // guards what follows
	nodes    map[string]held
	asking   bool
	asked    time.Time
	answered bool // since the last connection
}

// A held is how many keys a node had when it was asked last, and in which of its lives.
type held struct {
	run  string
	keys int64
}

const (
	// watchEvery is how often a server is asked, by a call that comes then.
	watchEvery = 10 * time.Second

	// watchAgain is how soon one is asked that did not answer.
	watchAgain = time.Second
)

// connects is a ControlContext of a [net.Dialer]: a connection is made.
func (w *watch) connects(context.Context, string, string, syscall.RawConn) error {
	w.anew()
	return nil
}

// anew says that nothing is known of the server any more.
func (w *watch) anew() {
	w.look.Lock()
	defer w.look.Unlock()
	if w.answered {
		w.answered, w.asked = false, time.Time{}
	}
}

// due reports whether it is time to ask, and has the caller do it.
func (w *watch) due() bool {
	if w.allowed {
		return false
	}
	w.look.Lock()
	defer w.look.Unlock()
	wait := w.every
	if !w.answered {
		wait = min(wait, watchAgain)
	}
	if w.asking || !w.asked.IsZero() && time.Since(w.asked) < wait {
		return false
	}
	w.asking = true
	return true
}

// inspect asks every node whether it would evict keys. A server that does not say is taken
// at its word, which is told.
func (w *watch) inspect(client rueidis.Client) error {
	if w.allowed {
		return nil
	}
	w.look.Lock()
	w.asking, w.asked, w.answered = true, time.Now(), true
	w.look.Unlock()
	evicts, silent := w.ask(client)
	if evicts != nil {
		w.alarms.evicts(evicts)
	}
	_, refused := rueidis.IsRedisErr(silent)
	if refused {
		w.alarms.silent(silent)
	}
	w.look.Lock()
	defer w.look.Unlock()
	w.asking = false
	w.answered = w.answered && (silent == nil || refused) // a connection may have been made meanwhile
	return evicts
}

// note tells of a node that has started anew, and lacks most of what it had. It need not be empty: calls may have
// charged it first.
func (w *watch) note(node string, now held) {
	w.look.Lock()
	defer w.look.Unlock()
	had := w.nodes[node]
	if w.nodes == nil {
		w.nodes = make(map[string]held)
	}
	w.nodes[node] = now
	if had.run != "" && now.run != had.run && 2*now.keys < had.keys {
		w.alarms.emptied(had.keys, now.keys)
	}
}

// ask returns errEvicts if a node would evict, and why one has not said.
func (w *watch) ask(client rueidis.Client) (evicts, silent error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for address, node := range client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Build()).ToString()
		if err != nil {
			silent = err
			continue
		}
		about, keys := make(map[string]string), int64(0)
		for field := range strings.SplitSeq(info, "\r\n") {
			name, value, _ := strings.Cut(field, ":")
			about[name] = value
			if count, is := strings.CutPrefix(value, "keys="); is { // of a database
				count, _, _ = strings.Cut(count, ",")
				n, _ := strconv.ParseInt(count, 10, 64)
				keys += n
			}
		}
		w.note(address, held{about["run_id"], keys})
		if policy := about["maxmemory_policy"]; about["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
			return errEvicts, nil
		}
	}
	return nil, silent
}
