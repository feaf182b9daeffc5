#!/usr/bin/env node
// Check the reference solver against vectors.json.
//
//     node check.js [vectors.json]
//
// Prints what differs and exits with 1 if anything does.
'use strict';

const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { solve, Refused } = require('./solve.js');

const v = JSON.parse(readFileSync(process.argv[2] || join(__dirname, 'vectors.json'), 'utf8'));
let checked = 0, bad = 0;

function expect(name, want, got) {
  checked++;
  if (want !== got) {
    bad++;
    console.log(`${name}:\n  want ${want}\n  got  ${got}`);
  }
}

// attempt returns the proof, or the reason why there is none.
function attempt(challenge, maxWork) {
  try {
    return solve(challenge, maxWork);
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    return e.reason;
  }
}

for (const c of v.issue) {
  expect('issue/' + c.name, c.proof, attempt(c.header.split(';')[0]));
}
// What is valid is exactly what a solver finds; what is wrong is something else.
for (const c of v.verify.filter((c) => c.want === 'valid' || c.want === 'wrong')) {
  const found = attempt(c.proof.split('~')[0]);
  expect('verify/' + c.name, c.want === 'valid', found === c.proof);
}
for (const c of v.solve) {
  expect('solve/' + c.name, c.want === 'valid' ? c.proof : c.want, attempt(c.challenge, c.max_work));
}
console.log(`check.js: ${checked} checked, ${bad} differ`);
process.exit(bad || !checked ? 1 : 0);
