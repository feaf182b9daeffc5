#!/usr/bin/env python3
"""Solve a Tallystick challenge. Python 3, standard library only.

    python3 solve.py CHALLENGE [MAX_WORK]

CHALLENGE is the value of a Tallystick-Challenge field, with or without its
parameters. The proof is printed on one line: send it back as the value of
Tallystick-Proof. MAX_WORK is the highest price to pay, in expected hashes; by
default 2^28. A challenge of the default price, 2^18, takes about 0.1 s on one
core, and never more than twice that.

Exit status: 0 solved, 1 no answer exists, 2 not a challenge, 3 too expensive.
"""

import base64
import hashlib
import re
import struct
import sys

DEFAULT_CAP = 1 << 28
HEADER, TARGET, MAC, MOST_PUZZLES = 38, 6, 16, 16


class Malformed(ValueError):
    """Not a challenge this program can read."""


class TooMuchWork(ValueError):
    """The price is above the cap; nothing has been hashed."""


class Unsolvable(ValueError):
    """All candidates were tried."""


def decode(text):
    """Return the bytes of a challenge, of which the form alone is checked."""
    # The alphabet first: Python's decoder skips what it does not know.
    if len(text) > 200 or not re.fullmatch(r"[A-Za-z0-9_-]+", text) or len(text) % 4:
        raise Malformed("not base64url without padding, or of no possible length")
    raw = base64.urlsafe_b64decode(text)
    if len(raw) < HEADER + MAC or raw[0] != 1 or raw[2] != 1:
        raise Malformed("unknown version or algorithm")
    k, span = raw[3], struct.unpack_from(">I", raw, 10)[0]
    if k > MOST_PUZZLES or len(raw) != HEADER + k * TARGET + MAC or (k == 0) != (span == 0):
        raise Malformed("puzzle count, range and length disagree")
    return raw


def solve(challenge, max_work=DEFAULT_CAP):
    """Return the proof for a challenge (without parameters)."""
    raw = decode(challenge)
    k, span = raw[3], struct.unpack_from(">I", raw, 10)[0]
    work = (k * span + 1) // 2
    if work > max_work:
        raise TooMuchWork("%d expected hashes, cap %d" % (work, max_work))
    seed = hashlib.sha256(raw[:HEADER]).digest()
    answers = []
    for i in range(k):
        # The 36 bytes in front of the candidate are hashed into a state once.
        prefix = hashlib.sha256(seed + struct.pack(">I", i))
        target = raw[HEADER + TARGET * i : HEADER + TARGET * (i + 1)]
        for n in range(span):
            attempt = prefix.copy()
            attempt.update(n.to_bytes(4, "big"))
            if attempt.digest()[:TARGET] == target:
                answers.append(str(n))
                break
        else:
            raise Unsolvable("puzzle %d has no answer" % i)
    return challenge + "~" + ".".join(answers)


def main(argv):
    if len(argv) not in (2, 3):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        challenge = argv[1].split(";")[0].strip(" \t")
        print(solve(challenge, int(argv[2]) if len(argv) == 3 else DEFAULT_CAP))
    except Unsolvable as e:
        print("solve.py:", e, file=sys.stderr)
        return 1
    except TooMuchWork as e:
        print("solve.py:", e, file=sys.stderr)
        return 3
    except ValueError as e:
        print("solve.py:", e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
