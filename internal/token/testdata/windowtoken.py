"""The window token, written a second time from its specification (doc.go).

It shares no code, language or library with the package, so that a mistake in
one is not a mistake in both. The vectors are what it signs, and each is verified by it.
"""

import base64
import hashlib
import hmac
import json

TYPE = "t+jwt"
HEADER, SIGNATURE, MAX_LEN = 57, 43, 512
OPENING = "eyJhdWQ"  # of {"aud": what every payload begins with
MAX_COUNT, MAX_EXPIRES, MAX_AGE, MAX_ID = 2**31 - 1, 2**33, 2**53, 2**24 - 1
MICRO = 1_000_000
MARKS = ("token-bucket", "leaky-bucket")


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    """Decodes the one canonical spelling of base64url without padding."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if b64(data) != text:
        raise ValueError("not canonical")
    return data


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def derive(secret, purpose, policy, salt=b"tallystick/v1", size=32):
    """HKDF-SHA256, RFC 5869 section 2.2 and 2.3, for at most one block."""
    prk = mac(salt, secret)
    info = "/".join(("tallystick/v1", purpose, policy)).encode()
    return mac(prk, info + b"\x01")[:size]


def kid(secret, policy):
    return b64(derive(secret, "kid", policy))[:4]


def header(secret, policy):
    text = '{"alg":"HS256","kid":"%s","typ":"%s"}' % (kid(secret, policy), TYPE)
    return b64(text.encode()) + "."


def siphash(key, message):
    """SipHash-2-4 of the paper by Aumasson and Bernstein, section 2."""
    mask = 2**64 - 1
    k = [int.from_bytes(key[i:i + 8], "little") for i in (0, 8)]
    v = [k[i % 2] ^ int.from_bytes(c, "big") for i, c in enumerate((b"somepseu", b"dorandom", b"lygenera", b"tedbytes"))]

    def half(a, b, turn, swap):
        v[a] = v[a] + v[b] & mask
        v[b] = (v[b] << turn | v[b] >> 64 - turn) & mask ^ v[a]
        if swap:
            v[a] = (v[a] << 32 | v[a] >> 32) & mask

    def rounds(n):
        for _ in range(n):
            half(0, 1, 13, True)
            half(2, 3, 16, False)
            half(2, 1, 17, True)
            half(0, 3, 21, False)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i:i + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def subject(secret, policy, identity):
    return b64(siphash(derive(secret, "bind", policy)[:16], identity)[:6])


def limit_id(limit):
    """64-bit FNV-1a of algorithm, seconds and name, folded to 24 bits."""
    h = 0xCBF29CE484222325
    for byte in ("%(algorithm)s %(window)d %(name)s" % limit).encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return (h ^ h >> 24 ^ h >> 48) & MAX_ID


def sign_text(secret, policy, head, segment):
    """Signs a header and a payload that are encoded already."""
    signed = (head + segment).encode()
    return head + segment + "." + b64(mac(derive(secret, "window", policy), signed))


def sign_payload(secret, policy, payload):
    return sign_text(secret, policy, header(secret, policy), b64(payload.encode()))


def expires(limits, tally):
    """The end of the second window of the limit that looks furthest."""
    last = 0
    for limit, state in zip(limits, tally):
        if limit["algorithm"] in MARKS and state["at"]:
            last = max(last, (state["at"] // (limit["window"] * MICRO) + 2) * limit["window"])
        elif limit["algorithm"] not in MARKS and (state["cur"] or state["prev"]):
            last = max(last, (state["at"] + 2) * limit["window"])
    return last


def origin(limit, exp):
    """What age is subtracted from."""
    return exp * MICRO if limit["algorithm"] in MARKS else exp // limit["window"]


def own_life(policy):
    """How long an own tally lives, in seconds from its challenge."""
    return max(3600, *(2 * limit["window"] for limit in policy["limits"]))


def payload(secret, policy, identity, tally, own=None):
    """own is the id, the end and whether it is bound, of an own tally."""
    exp, numbers = own["expires"] if own else expires(policy["limits"], tally), []
    for limit, state in zip(policy["limits"], tally):
        mark = limit["algorithm"] in MARKS
        if state["cur"] or state["prev"] or (mark and state["at"]):
            numbers += [limit_id(limit), origin(limit, exp) - state["at"], state["cur"], state["prev"]]
    claims = {"aud": policy["name"]}
    if not own or own["bound"]:
        claims["sub"] = subject(secret, policy["name"], identity)
    if own:
        claims["fam"] = b64(bytes.fromhex(own["id"]))
    return json.dumps(claims | {"exp": exp, "t": numbers}, separators=(",", ":"))


def sign(secret, policy, identity, tally, own=None):
    return sign_payload(secret, policy["name"], payload(secret, policy, identity, tally, own))


def integers(values, *bounds):
    """Whether values are integers, not floats or booleans, within bounds."""
    return len(values) == len(bounds) and all(
        type(v) is int and low <= v <= high for v, (low, high) in zip(values, bounds))


CLAIMS = (["aud", "sub", "exp", "t"], ["aud", "fam", "exp", "t"], ["aud", "sub", "fam", "exp", "t"])


def parse(policy, segment):
    """Returns exp, sub, fam and tally, or raises ValueError."""
    text = unb64(segment).decode()
    claims = json.loads(text)
    if type(claims) is not dict or list(claims) not in CLAIMS:
        raise ValueError("claims")
    # Writing it again finds what reading forgives: spaces, escapes, repeated
    # names, and every second spelling of a number.
    if json.dumps(claims, separators=(",", ":"), ensure_ascii=False) != text:
        raise ValueError("spelling")
    exp, sub, fam, numbers = claims["exp"], claims.get("sub"), claims.get("fam"), claims["t"]
    if claims["aud"] != policy["name"]:
        raise ValueError("aud")
    if "sub" in claims and (type(sub) is not str or len(sub) != 8):
        raise ValueError("sub")
    if "fam" in claims and (type(fam) is not str or len(unb64(fam)) != 6):
        raise ValueError("fam")
    if not integers([exp], (1, MAX_EXPIRES)) or type(numbers) is not list or len(numbers) % 4:
        raise ValueError("exp or t")
    if not numbers and fam is None:
        raise ValueError("nothing counted")
    tally = [{"at": 0, "cur": 0, "prev": 0} for _ in policy["limits"]]
    for i in range(0, len(numbers), 4):
        entry = numbers[i:i + 4]
        if not integers(entry, (0, MAX_ID), (-MAX_AGE, MAX_AGE), (0, MAX_COUNT), (0, MAX_COUNT)):
            raise ValueError("entry")
        for j, limit in enumerate(policy["limits"]):
            if limit_id(limit) == entry[0]:
                at = origin(limit, exp) - entry[1]
                if not 0 <= at <= origin(limit, MAX_EXPIRES):
                    raise ValueError("at")
                tally[j] = {"at": at, "cur": entry[2], "prev": entry[3]}
    return exp, sub, fam, tally


def verify(policy, secrets, identity, now, token):
    """Returns the failure class, or "" with the expiry, the tally and the own
    tally, if it is one's."""
    text = token.encode()  # lengths are in bytes
    start = HEADER + len(OPENING)
    if not start + 1 + SIGNATURE <= len(text) <= MAX_LEN or text[-SIGNATURE - 1:-SIGNATURE] != b".":
        return {"failure": "malformed"}
    name = policy["name"]
    ours = [s for s in secrets if (header(s, name) + OPENING).encode() == text[:start]]
    if not ours:
        return {"failure": "foreign"}
    signature = b64(mac(derive(ours[0], "window", name), text[:-SIGNATURE - 1]))
    if signature.encode() != text[-SIGNATURE:]:
        return {"failure": "forged"}
    try:
        exp, sub, fam, tally = parse(policy, text[HEADER:-SIGNATURE - 1].decode())
    except (ValueError, RecursionError):
        return {"failure": "malformed"}
    if exp <= now:
        return {"failure": "expired"}
    if sub is not None and sub != subject(ours[0], name, identity):
        return {"failure": "holder"}
    verdict = {"failure": "", "expires": exp, "tally": tally}
    if fam is not None:
        verdict["own"] = {"id": unb64(fam).hex(), "expires": exp, "bound": sub is not None}
    return verdict
