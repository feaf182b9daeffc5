// SPDX-License-Identifier: Apache-2.0

package words

// Page are the sentences of the pages in place of what was refused: page.* of words.txt, which says what each is for.
// A {} is what the code puts in.
type Page struct {
	Moment, Opens, Takes, Opening, Waits, Stuck, Retry, Reload, Reloads, Refused, TooMany, Later,
	Title, Many, Check, Setup, GoBack, Script, Unloaded, Wait string
}

// Form has the kept form's sentences: form.* of words.txt.
type Form struct {
	Kept, Again, Name, Send, Back, Password, OneTimeCode, CardCode, CardNumber, PIN, Kind, Long, Strange string
}

// A plural says how many forms a word has beside a number, and which of them a number takes.
type plural uint8

const (
	one    plural = iota // no number changes the word
	two                  // one, and all others
	slavic               // 1, 21 and 31; 2 to 4, and 22 to 24; the rest
)

func (p plural) form(n int64) int {
	switch {
	case p == one || p == two && n == 1:
		return 0
	case p == two:
		return 1
	case n/10%10 == 1 || n%10 == 0 || n%10 > 4:
		return 2
	case n%10 == 1:
		return 0
	}
	return 1
}
