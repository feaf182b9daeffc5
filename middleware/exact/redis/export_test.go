package redis

import (
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
)

// OpenByKey is Open, but the scripts go by a clock that is a key of the server: nobody
// can set the clock of a machine in a test.
func OpenByKey(url string, cfg Config) (*Counter, error) {
	c, err := Open(url, cfg)
	if err != nil {
		return nil, err
	}
	if strings.Count(prelude, "redis.call('TIME')") != 1 {
		panic("the clock is read in another way")
	}
	by := strings.Replace(prelude, "redis.call('TIME')", "redis.call('HMGET', 'clock', 's', 'us')", 1)
	c.engine.taking, c.engine.refunding = rueidis.NewLuaScript(by+takeLua), rueidis.NewLuaScript(by+refundLua)
	return c, nil
}

// Engine is what a Counter merges calls for.
func (c *Counter) Engine() exact.Batcher { return c.engine }

// AskEvery has a counter ask so often whether its server evicts keys.
func (c *Counter) AskEvery(every time.Duration) { c.engine.line.every = every }
