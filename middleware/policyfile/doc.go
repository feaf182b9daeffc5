// Package policyfile reads what an operator may change without a new program: tiers, from
// JSON.
//
// Its limits first:
//
//   - It opens no file and watches none. The program reads the file, and calls
//     [middleware.Middleware.Reconfigure] when it has changed.
//   - It reads tiers alone. Secrets and functions do not belong in such a file; the other
//     fields of [middleware.Config] are set in Go.
//   - It believes the file's owner: what the file says is what everybody may use. The text
//     is held in memory as a whole, and its size is not bounded.
//   - It knows no Config: [middleware.New] still refuses tiers that do not fit one, such as a
//     sliding log without an exact counter.
//   - It is checked by go-playground/validator, which weighs more than the rest of Tallystick
//     together. It is a package of its own so that only its users link that.
package policyfile
