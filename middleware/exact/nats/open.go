// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/storeless"
)

// A Config says which bucket is counted in, and how it is made where there is none. Its zero
// value is good for a single server.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Bucket names the bucket, whose stream is KV_<bucket>. Permitted: letters, digits, _
	// and -. Default: "tallystick".
	Bucket string

	// Replicas is how many servers of a cluster keep a bucket that is made. Permitted: 1
	// to 5. Default: 1.
	Replicas int

	// MaxBytes bounds a bucket that is made. Default: 0, no bound but the server's.
	MaxBytes int64
}

var bucketName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (cfg *Config) check() (errs []error) {
	problem := func(field, text string) {
		errs = append(errs, &storeless.ConfigError{Field: field, Problem: text})
	}
	if !bucketName.MatchString(cfg.Bucket) {
		problem("Bucket", "must be of letters, digits, _ and -")
	}
	if cfg.Replicas < 1 || cfg.Replicas > 5 {
		problem("Replicas", fmt.Sprintf("must be from 1 to 5, or 0 for 1, not %d", cfg.Replicas))
	}
	if cfg.MaxBytes < 0 {
		problem("MaxBytes", "must not be negative")
	}
	return errs
}

// stream is how a bucket is made: as the NATS tools make one, so that they can look into it,
// but that each value may expire and that it is read from its leader alone.
func (cfg *Config) stream() jetstream.StreamConfig {
	s := jetstream.StreamConfig{
		Name:              "KV_" + cfg.Bucket,
		Description:       "exact counts of tallystick",
		Subjects:          []string{"$KV." + cfg.Bucket + ".>"},
		MaxMsgsPerSubject: 1,
		MaxBytes:          -1,
		MaxMsgs:           -1,
		MaxConsumers:      -1,
		MaxMsgSize:        -1,
		Discard:           jetstream.DiscardNew,
		Storage:           jetstream.FileStorage,
		Replicas:          cfg.Replicas,
		DenyDelete:        true,
		AllowRollup:       true,
		AllowMsgTTL:       true,
	}
	if cfg.MaxBytes > 0 {
		s.MaxBytes = cfg.MaxBytes
	}
	return s
}

// Open returns a store in a bucket, which it makes if there is none. One that is there is
// never changed: an error says what must be done to it. The connection of js stays the
// caller's to close. The store is safe for concurrent use, and needs no closing.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (cas.ListedStore, error) {
	cfg.Bucket = cmp.Or(cfg.Bucket, "tallystick")
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	errs := cfg.check()
	if js == nil {
		errs = append(errs, &storeless.ConfigError{Field: "js", Problem: "is nil"})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	want := cfg.stream()
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, want)
		if err != nil {
			// Another process may have made it meanwhile.
			if made, e := js.Stream(ctx, want.Name); e == nil {
				stream, err = made, nil
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("nats: the bucket %s: %w", cfg.Bucket, err)
	}
	if err := counts(stream.CachedInfo().Config); err != nil {
		return nil, fmt.Errorf("nats: the bucket %s %w", cfg.Bucket, err)
	}
	return &store{js: js, stream: stream, prefix: "$KV." + cfg.Bucket + "."}, nil
}

// counts says why a stream cannot be counted in, or nil.
func counts(s jetstream.StreamConfig) error {
	switch {
	case !s.AllowMsgTTL:
		return errors.New("does not let single values expire: set allow_msg_ttl")
	case s.MaxAge != 0:
		return errors.New("forgets what is older than its max_age, which may count still: set that to 0")
	case s.Discard != jetstream.DiscardNew:
		return errors.New("makes room by forgetting, which gives quotas away: set discard to new")
	case s.MaxMsgsPerSubject != 1:
		return errors.New("keeps a history, which grows with each charge: set max_msgs_per_subject to 1")
	case s.AllowDirect && s.Replicas > 1:
		return errors.New("is read from any replica, which may be behind: set allow_direct to false")
	}
	return nil
}
