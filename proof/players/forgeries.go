// SPDX-License-Identifier: Apache-2.0

package players

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Forgeries makes of a real token what is none, of all kinds that are read differently: none for what is no token.
func Forgeries(real string) []string {
	parts := strings.Split(real, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	with := func(header, payload, signature string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + signature
	}
	signed := func(payload string) string {
		return parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + parts[2]
	}
	list := []string{
		with(`{"alg":"none","typ":"tally+jwt"}`, string(payload), ""),
		with(`{"alg":"None","typ":"tally+jwt"}`, string(payload), parts[2]),
		with(`{"alg":"HS512","kid":"../../etc/passwd","typ":"tally+jwt"}`, string(payload), parts[2]),
		with(`{"alg":"RS256","jku":"http://127.0.0.1/","crit":["exp"],"typ":"tally+jwt"}`, string(payload), parts[2]),
		with(`{"alg":"HS256","kid":"AAAAAAAA","typ":"tally+jwt"}`, string(payload), parts[2]), // of another policy's key, or none
		signed(strings.Replace(string(payload), `"sub"`, `"fam"`, 1)),
		signed(`{"aud":"`),
		signed(strings.TrimSuffix(string(payload), "}") + `,"n":` + strconv.Itoa(1<<30) + "}"), // with other counts
		signed("{}"),
		real + ".", real + "=", "." + real, strings.ToUpper(real), strings.Repeat(real+",", 40), strings.Repeat(signed("{}")+",", 12),
		real[:len(real)-1], strings.Repeat("A", 513), strings.Repeat("A", 7000), "..", ".", "~0.0.0.0.0.0.0.0", strings.Repeat("A", 120) + "~0.0.0.0.0.0.0.0",
		parts[0] + "." + strings.Repeat("A", max(1, 511-len(parts[0])-len(parts[2]))) + "." + parts[2], // the longest that is looked at
	}
	for i := 0; i < len(real); i += 7 { // one character changed
		flipped := []byte(real)
		flipped[i] ^= 1
		list = append(list, string(flipped))
	}
	return list
}
