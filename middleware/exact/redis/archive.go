// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Each implements [engine.Archive]: see [Open].
func (c *counter) Each(ctx context.Context, f func(engine.Record) error) error {
	e := c.engine
	client, err := e.connection.get(ctx)
	if err != nil {
		return err
	}
	read, seen := newScript(text("read")), make(map[string]bool)
	for _, node := range client.Nodes() {
		for cursor := uint64(0); ; {
			scan := node.B().Scan().Cursor(cursor).Match(e.tagPattern()).Count(1000).Build()
			some, err := node.Do(ctx, scan).AsScanEntry()
			if err != nil {
				return fmt.Errorf("redis: %w", err)
			}
			for _, tag := range some.Elements {
				name, ok := e.nameOf(tag)
				if !ok || seen[name] {
					continue
				}
				seen[name] = true
				r, found, err := e.record(ctx, client, read, name, tag)
				if err != nil {
					return fmt.Errorf("%w: %s", err, tag)
				}
				if !found {
					continue
				}
				if err := f(r); err != nil {
					return err
				}
			}
			if cursor = some.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// Restore implements [engine.Archive].
func (c *counter) Restore(ctx context.Context, r engine.Record) error {
	if err := r.Check(ctx); err != nil {
		return err
	}
	client, err := c.engine.connection.get(ctx)
	if err != nil {
		return err
	}
	s := r.Account.Snapshot()
	value, trails := packAccount(&s)
	keys, args := []string{c.engine.tagOf(r.Name)}, []string{string(value), strconv.FormatInt(r.Account.Expires().Unix(), 10)}
	for id, parts := range trails {
		keys, args = append(keys, trailKey(keys[0], id)), append(args, parts)
	}
	restore := text("restore")
	if clock := c.engine.scripts.clock; clock != "" {
		restore = strings.Replace(restore, "redis.call('TIME')", clock, 1)
	}
	said, err := newScript(restore).lua.Exec(ctx, client, keys, args).ToString()
	if err == nil && said == "0" {
		return engine.ErrKept
	}
	return classify(err)
}

// Forget implements [engine.Archive]. The trails of an account without it count nothing.
func (c *counter) Forget(ctx context.Context, name string) error {
	client, err := c.engine.connection.get(ctx)
	if err != nil {
		return err
	}
	return classify(client.Do(ctx, client.B().Del().Key(c.engine.tagOf(name)).Build()).Error())
}

// record reads an account. The account names its trails, so it is read again, with them, until it
// has no others.
func (e *batcher) record(ctx context.Context, client rueidis.Client, read *script, name, tag string) (r engine.Record, found bool, err error) {
	keys := []string{tag}
	for {
		said, err := read.lua.Exec(ctx, client, keys, nil).AsStrSlice()
		if err != nil || len(said) == 0 {
			return r, false, classify(err)
		}
		s, err := unpackAccount(said[0])
		if err != nil {
			return r, false, err
		}
		trails := []string{tag}
		for i := range s.Limits {
			if !isTrail(s.Limits[i].ID) {
				continue
			}
			if trails = append(trails, trailKey(tag, s.Limits[i].ID)); len(trails) <= len(said) {
				s.Limits[i].Used, s.Limits[i].Charges = unpackTrail(said[len(trails)-1])
			}
		}
		if slices.Equal(trails, keys) {
			return engine.Record{Name: name, Account: s.Account()}, true, nil
		}
		keys = trails
	}
}

// nameOf returns the name of an account by its key.
func (e *batcher) nameOf(tag string) (name string, ok bool) {
	inner, ok := strings.CutPrefix(tag, e.prefix+"{")
	if !ok {
		return "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimSuffix(inner, "}"))
	return string(b), err == nil && len(b) == engine.NameLength
}

// tagPattern matches the keys of accounts.
func (e *batcher) tagPattern() string {
	prefix := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(e.prefix)
	return prefix + "{" + strings.Repeat("?", base64.RawURLEncoding.EncodedLen(engine.NameLength)) + "}"
}
