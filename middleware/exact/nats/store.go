// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
)

// store implements [cas.ListedStore] on a bucket.
type store struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string // of subjects
}

// Load implements [cas.Store].
func (s *store) Load(ctx context.Context, name string) (value []byte, revision string, err error) {
	if err := s.connected(); err != nil {
		return nil, "", err
	}
	m, err := s.stream.GetLastMsgForSubject(ctx, s.prefix+name)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, "0", nil
	case err != nil:
		return nil, "", fmt.Errorf("nats: %w", err)
	}
	// A marker of the tools that something was deleted has no body: nothing is kept.
	return m.Data, strconv.FormatUint(m.Sequence, 10), nil
}

// Each implements [cas.ListedStore].
func (s *store) Each(ctx context.Context, f func(name string, value []byte) error) error {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.prefix+">"))
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	for subject := range info.State.Subjects {
		name := strings.TrimPrefix(subject, s.prefix)
		value, _, err := s.Load(ctx, name)
		if err == nil && len(value) > 0 {
			err = f(name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Swap implements [cas.Store].
func (s *store) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	last, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: nats: %q is no revision", exact.ErrNotCounted, revision)
	}
	if err := s.connected(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	m := &nats.Msg{Subject: s.prefix + name, Header: nats.Header{}, Data: value}
	_, err = s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithMsgTTL(keep), jetstream.WithRetryAttempts(0))
	return classify(err)
}

// connected fails if the connection is down: the client would buffer the call, and send
// it after the caller has left.
func (s *store) connected() error {
	if !s.js.Conn().IsConnected() {
		return fmt.Errorf("%w: nats: not connected", exact.ErrNotCounted)
	}
	return nil
}

// Codes of what a server answers to a message that it has not stored.
const (
	accountFull   jetstream.ErrorCode = 10002
	memoryFull    jetstream.ErrorCode = 10028
	storageFull   jetstream.ErrorCode = 10047
	tooLarge      jetstream.ErrorCode = 10054
	storingFailed jetstream.ErrorCode = 10077
)

// classify says what has become of a swap.
func classify(err error) error {
	var said *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: nats: %w", exact.ErrFull, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse): // no server has heard it
		return fmt.Errorf("%w: nats: %w", exact.ErrNotCounted, err)
	case !errors.As(err, &said):
		return fmt.Errorf("nats: %w", err)
	}
	full := slices.Contains([]jetstream.ErrorCode{accountFull, memoryFull, storageFull, tooLarge}, said.ErrorCode)
	switch said.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		// One replica says the first, several say the second.
		return cas.ErrChanged
	case storingFailed:
		if full = strings.HasPrefix(said.Description, "maximum "); !full {
			return fmt.Errorf("nats: %w", err) // by the disk, perhaps
		}
	}
	if full {
		return fmt.Errorf("%w: nats: %w", exact.ErrFull, err)
	}
	return fmt.Errorf("%w: nats: %w", exact.ErrNotCounted, err)
}
