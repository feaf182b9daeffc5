package token

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// An Own is a family of one's own, as its challenge made it.
type Own struct {
	ID      [8]byte // derived from the challenge
	Expires int64   // the end of the family's life, in Unix seconds
	Bound   bool    // its tokens are good for the holder who bought it alone
}

// IsZero reports whether o is no family: one that never ends is none.
func (o Own) IsZero() bool { return o.Expires == 0 }

// OwnLife returns how long a family of one's own lives: two of the longest
// windows, and an hour at least. It ends then, so that what was paid for once is
// not good for ever.
func OwnLife(p *storeless.Policy) time.Duration {
	life := time.Hour
	for i := range p.Len() {
		life = max(life, 2*p.Limit(i).Window)
	}
	return life
}

// AppendOwn is [Holder.Append] for a family of the holder's own. A token that has
// counted nothing is its first, and worth having: it says that the family exists.
// Nothing in it depends on when it is made, so that redeeming a challenge twice
// gives the same bytes.
//
// It appends nothing if own ends outside of 1970 to 2242, as the zero Own does, or
// if t, made under far larger quotas or longer windows, no longer fits [MaxLen].
func (h *Holder) AppendOwn(dst []byte, own Own, t *storeless.Tally) []byte {
	return h.append(dst, own, own.Expires, t)
}
