#!/usr/bin/env python3
"""Check vectors.json with an implementation of its own: issue, verify, solve.

    python3 check.py [vectors.json]

Keys, MACs, targets and answers are computed here from the secrets, with hmac and
hashlib alone. Prints what differs and exits with 1 if anything does.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import struct
import sys

import solve


def hkdf(secret, purpose, size):
    """RFC 5869 with SHA-256, no salt, one block of output."""
    prk = hmac.digest(bytes(32), secret, "sha256")
    info = ("tallystick/pow/%s/1" % purpose).encode()
    return hmac.digest(prk, info + b"\x01", "sha256")[:size]


def framed(part):
    return struct.pack(">I", len(part)) + part


def tag(secret, bound):
    parts = (bytes.fromhex(bound["client"]), bound["route"].encode(), bound["tier"].encode())
    return hmac.digest(hkdf(secret, "bind", 32), b"".join(map(framed, parts)), "sha256")[:8]


def numbers(secret, header):
    k, span = header[3], struct.unpack_from(">I", header, 10)[0]
    if k == 0:
        return []
    block = hmac.digest(hkdf(secret, "num", 32), bytes(4) + header, "sha256")
    return [u * span >> 32 for u in struct.unpack(">8I", block)][:k]


def mac(secret, signed):
    return hmac.digest(hkdf(secret, "mac", 32), signed, "sha256")[:16]


def issue(secret, at, bound, work, nonce):
    """Return the header field value of a new challenge."""
    k = 8 if work else 0
    span = -(-2 * work // 8) if work else 0
    ttl = min(max(-(-2 * work // 75000) + 2, 10), 60)
    kid = hkdf(secret, "kid", 1)
    header = b"\x01" + kid + b"\x01" + struct.pack(">BIHI", k, at, ttl, span) + nonce + tag(secret, bound)
    seed = hashlib.sha256(header).digest()
    raw = header
    for i, n in enumerate(numbers(secret, header)):
        raw += hashlib.sha256(seed + struct.pack(">II", i, n)).digest()[:6]
    raw += mac(secret, raw)
    text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return "%s;ttl=%d;work=%d" % (text, ttl, k * span // 2)


def verify(secrets, now, bound, proof):
    """Return (class, receipt or None)."""
    text, tilde, answers = proof.partition("~")
    if len(proof.encode()) > 600 or not tilde:
        return "malformed", None
    try:
        raw = solve.decode(text)
    except solve.Malformed:
        return "malformed", None
    k = raw[3]
    at, ttl, span = struct.unpack_from(">IHI", raw, 4)
    decimal = "(?:0|[1-9][0-9]{0,9})"
    if k not in (0, 8) or not re.fullmatch(r"\.".join([decimal] * k), answers):
        return "malformed", None
    got = [int(a) for a in answers.split(".")] if k else []
    if any(n >= 1 << 32 for n in got):
        return "malformed", None
    for secret in secrets:
        if hkdf(secret, "kid", 1)[0] == raw[1] and hmac.compare_digest(mac(secret, raw[:-16]), raw[-16:]):
            break
    else:
        return "forged", None
    if not at - 2 <= now <= at + ttl:
        return "expired", None
    if not 10 <= ttl <= 60 or (k and not 4 <= span <= 1 << 30):
        return "malformed", None
    if not hmac.compare_digest(tag(secret, bound), raw[30:38]):
        return "binding", None
    if got != numbers(secret, raw[:38]):
        return "wrong", None
    name = hashlib.sha256(b"tallystick/pow/id/1" + raw[:38]).hexdigest()[:32]
    return "valid", {"id": name, "serial": raw[14:20].hex(), "issued": at, "expires": at + ttl + 1, "work": k * span // 2}


def attempt(vector):
    try:
        return "valid", solve.solve(vector["challenge"], vector["max_work"])
    except solve.Malformed:
        return "malformed", ""
    except solve.TooMuchWork:
        return "too-much-work", ""
    except solve.Unsolvable:
        return "unsolvable", ""


def main(path):
    with open(path, encoding="utf-8") as f:
        v = json.load(f)
    secrets = [bytes.fromhex(s) for s in v["secrets"]]
    checked, bad = 0, 0

    def expect(name, want, got):
        nonlocal checked, bad
        checked += 1
        if want != got:
            bad += 1
            print("%s:\n  want %r\n  got  %r" % (name, want, got))

    for c in v["issue"]:
        field = issue(secrets[c["secret"]], c["at"], c, c["work"], bytes.fromhex(c["nonce"]))
        expect("issue/" + c["name"], c["header"], field)
        expect("issue and solve/" + c["name"], c["proof"], solve.solve(field.split(";")[0]))
    for c in v["verify"]:
        receipt = {key: c.get(key, 0) for key in ("id", "serial", "issued", "expires", "work")} if c["want"] == "valid" else None
        expect("verify/" + c["name"], (c["want"], receipt), verify(secrets, c["now"], c, c["proof"]))
    for c in v["solve"]:
        expect("solve/" + c["name"], (c["want"], c.get("proof", "")), attempt(c))
    print("check.py: %d checked, %d differ" % (checked, bad))
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors.json")
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else beside))
