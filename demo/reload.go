package main

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/tallystick/tallystick/middleware"
)

// reload reads the secrets and the policies again, and has every limiter of every instance go on with
// them: nothing that was counted is lost, and no request waits. What is wrong in
// either file leaves all as it is, and is logged, each problem in a line of its own.
func (b *instances) reload(o options, now *settings) {
	next, err := loadSettings(o)
	if err == nil && o.secretFile == "" {
		next.secrets = now.secrets // nobody else has the secret of this process
	}
	var configs []middleware.Config
	if err == nil {
		configs, err = b.try(next)
	}
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			o.log.Error("not reloaded: nothing has changed", "problem", line)
		}
		return
	}
	for _, site := range b.all {
		for i, limit := range site.limiters {
			err = errors.Join(err, limit.Reconfigure(configs[i]))
		}
		configs = configs[len(site.limiters):]
	}
	if err != nil { // which were tried
		o.log.Error("reloaded in part", "problem", err)
		return
	}
	*now = next
	b.room.announce(next)
	o.log.Info("reloaded", "secrets", len(next.secrets), b.counted.attr())
}

// try returns the configs of all limiters, of all instances in turn, if all are good. It makes the limiters of the first
// instance once more, with memories of next to no size, to have New say what is wrong with them.
func (b *instances) try(next settings) (configs []middleware.Config, err error) {
	for i, site := range b.all {
		for _, limit := range site.limiters {
			cfg, problem := limit.config(next)
			if problem == nil && i == 0 {
				small := cfg
				small.MaxClients = 1
				_, problem = middleware.New(small)
			}
			err = errors.Join(err, problem)
			configs = append(configs, cfg)
		}
	}
	return configs, err
}

// counted is what tells an operator whether a rotation went well. The limiter tells no client that
// its token was not accepted.
type counted struct{ decisions, tokenErrors atomic.Uint64 }

func (c *counted) note(d middleware.Decision) {
	c.decisions.Add(1)
	if d.TokenErr != nil {
		c.tokenErrors.Add(1)
	}
}

func (c *counted) attr() slog.Attr {
	return slog.Group("since-start", "decisions", c.decisions.Load(), "token-errors", c.tokenErrors.Load())
}
