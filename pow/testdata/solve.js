#!/usr/bin/env node
// Solve a Tallystick challenge. Node.js, no packages.
//
//     node solve.js CHALLENGE [MAX_WORK]
//
// CHALLENGE is the value of a Tallystick-Challenge field, with or without its
// parameters. The proof is printed on one line: send it back as the value of
// Tallystick-Proof. MAX_WORK is the highest price to pay, in expected hashes; by
// default 2^28. This is the reference, written to be read: a native call for each
// hash is several times slower than SHA-256 written out in JavaScript.
//
// Exit status: 0 solved, 1 no answer exists, 2 not a challenge, 3 too expensive.
'use strict';

const { createHash } = require('node:crypto');

const DEFAULT_CAP = 2 ** 28;
const HEADER = 38, TARGET = 6, MAC = 16, MOST_PUZZLES = 16;

class Refused extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason; // malformed, too-much-work or unsolvable
  }
}

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();

// decode returns the bytes of a challenge. It checks the form alone.
function decode(text) {
  // The alphabet first: Node's decoder skips what it does not know.
  if (text.length > 200 || text.length % 4 !== 0 || !/^[A-Za-z0-9_-]+$/.test(text)) {
    throw new Refused('malformed', 'not base64url without padding, or of no possible length');
  }
  const raw = Buffer.from(text, 'base64url');
  if (raw.length < HEADER + MAC || raw[0] !== 1 || raw[2] !== 1) {
    throw new Refused('malformed', 'unknown version or algorithm');
  }
  const k = raw[3], span = raw.readUInt32BE(10);
  if (k > MOST_PUZZLES || raw.length !== HEADER + k * TARGET + MAC || (k === 0) !== (span === 0)) {
    throw new Refused('malformed', 'puzzle count, range and length disagree');
  }
  return raw;
}

// solve returns the proof for a challenge (without parameters).
function solve(challenge, maxWork = DEFAULT_CAP) {
  const raw = decode(challenge);
  const k = raw[3], span = raw.readUInt32BE(10);
  const work = Math.ceil(k * span / 2); // below 2^36: exact
  if (work > maxWork) {
    throw new Refused('too-much-work', `${work} expected hashes, cap ${maxWork}`);
  }
  const message = Buffer.alloc(40);
  sha256(raw.subarray(0, HEADER)).copy(message);
  const answers = [];
  for (let i = 0; i < k; i++) {
    message.writeUInt32BE(i, 32);
    const target = raw.subarray(HEADER + TARGET * i, HEADER + TARGET * (i + 1));
    let n = 0;
    for (; n < span; n++) {
      message.writeUInt32BE(n, 36);
      if (target.equals(sha256(message).subarray(0, TARGET))) break;
    }
    if (n === span) {
      throw new Refused('unsolvable', `puzzle ${i} has no answer`);
    }
    answers.push(n);
  }
  return challenge + '~' + answers.join('.');
}

module.exports = { solve, Refused };

if (require.main === module) {
  const [challenge, maxWork] = process.argv.slice(2);
  if (challenge === undefined) {
    console.error('usage: node solve.js CHALLENGE [MAX_WORK]');
    process.exit(2);
  }
  try {
    console.log(solve(challenge.split(';')[0].trim(), maxWork === undefined ? DEFAULT_CAP : Number(maxWork)));
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    console.error('solve.js: ' + e.message);
    process.exit({ unsolvable: 1, malformed: 2, 'too-much-work': 3 }[e.reason]);
  }
}
