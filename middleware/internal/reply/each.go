// SPDX-License-Identifier: Apache-2.0

package reply

// Each yields the fields that tell of a decision by name, until yield returns false. What
// is about a response, its cookie and how it is stored, is not among them.
func (f *Fields) Each(yield func(name, value string) bool) {
	v := f.Current()
	for i := range names {
		if line := v.value(i); line != "" && i != Cache && !yield(names[i], line) {
			return
		}
	}
}
