package exact

import (
	"github.com/tallystick/tallystick/storeless"
)

// A Policy is a named set of limits, compiled for exact counters. It is immutable
// and safe for concurrent use.
type Policy struct {
	name   string
	limits []storeless.Limit // defaults filled in
	ids    [storeless.MaxLimits]uint32

	tokens *storeless.Policy
}

// Compile checks limits and compiles them, like [storeless.Compile].
func Compile(name string, limits []storeless.Limit) (*Policy, error) {
	tokens, err := storeless.Compile(name, limits)
	if err != nil {
		return nil, err
	}
	p := &Policy{name: name, tokens: tokens}
	for i := range tokens.Len() {
		p.limits = append(p.limits, tokens.Limit(i))
		p.ids[i] = tokens.ID(i)
	}
	return p, nil
}

// Name returns the policy's name.
func (p *Policy) Name() string { return p.name }

// Len returns the number of limits, from 1 to [storeless.MaxLimits].
func (p *Policy) Len() int { return len(p.limits) }

// Limit returns the i-th limit, with its defaults filled in.
func (p *Policy) Limit(i int) storeless.Limit { return p.limits[i] }

// ID returns the number by which counters know the i-th limit: a hash of its
// algorithm, window and name. A quota that changes keeps what was counted.
func (p *Policy) ID(i int) uint32 { return p.ids[i] }

// Tokens returns the same policy for tokens and memories: the arithmetic of every
// algorithm is that of package storeless.
func (p *Policy) Tokens() *storeless.Policy { return p.tokens }

// Share returns the policy of one of n who share what p admits, see
// [storeless.Policy.Share].
func (p *Policy) Share(n int64) *Policy {
	share := &Policy{name: p.name, ids: p.ids, tokens: p.tokens.Share(n)}
	for i, l := range p.limits {
		l.Quota, l.Burst = share.tokens.Limit(i).Quota, share.tokens.Limit(i).Burst
		share.limits = append(share.limits, l)
	}
	return share
}
