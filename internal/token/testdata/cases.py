"""What the cases of vectors.py are made of: policies, secrets, clients, tallies."""

import hashlib

import windowtoken as wt

NOW = 1_700_000_000
MINUTE, HOUR, DAY = 60, 3600, 86400
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def limit(name, algorithm, quota, window, burst=0):
    return {"name": name, "algorithm": algorithm, "quota": quota, "window": window, "burst": burst}


CONTACT = {"name": "contact", "limits": [
    limit("contact", "sliding-window", 5, MINUTE),
    limit("contact-24h", "sliding-window", 50, DAY),
    limit("burst", "token-bucket", 60, HOUR, 5),
]}
MODEL = {"name": "model", "limits": [
    limit("requests", "sliding-window", 60, MINUTE),
    limit("tokens", "token-bucket", 100_000, MINUTE, 20_000),
    limit("month", "fixed-window", 10_000_000, 30 * DAY),
]}
SIGNUP = {"name": "signup", "limits": CONTACT["limits"]}
SMALLER = {"name": "contact", "limits": CONTACT["limits"][1:]}
TURNED = {"name": "contact", "limits": CONTACT["limits"][::-1]}
EIGHT = {"name": "an-api-with-a-name-of-32-letters", "limits": [
    limit("api-1s", "fixed-window", 10, 1),
    limit("api-1m", "sliding-window", 100, MINUTE),
    limit("api-1h", "sliding-window", 1000, HOUR),
    limit("api-24h", "fixed-window", 9999, DAY),
    limit("search", "token-bucket", 60, MINUTE, 20),
    limit("export", "leaky-bucket", 30, MINUTE, 1),
    limit("report", "fixed-window", 5, HOUR),
    limit("write", "sliding-window", 500, 10 * MINUTE),
]}


def secret(name):
    return hashlib.sha256(b"tallystick test secret " + name.encode()).digest()


A, B, C = secret("a"), secret("b"), secret("c")
ALICE, BOB = b"ip4:198.51.100.1", b"ip6:2001:db8::/64"


def state(at=0, cur=0, prev=0):
    return {"at": at, "cur": cur, "prev": prev}


def own(name="family", bound=False, ends=None, policy=CONTACT, since=NOW):
    """An own tally, bought at a time; its id stands for one made of a challenge. (Its name is
    in the vectors: another would change their bytes.)"""
    return {"id": hashlib.sha256(name.encode()).hexdigest()[:12], "bound": bound,
            "expires": ends or since + wt.own_life(policy)}


FRESH = [state(NOW // MINUTE, 1), state(NOW // DAY, 1), state((NOW + 60) * wt.MICRO)]


def case(name, token, policy=CONTACT, ring=(A,), identity=ALICE, now=NOW):
    return {"name": name, "policy": policy, "secrets": [s.hex() for s in ring], "identity": identity.hex(),
            "now": now, "token": token}


def spare_bits(segment, n=1):
    """The same bytes in another spelling: a last character with spare bits set."""
    assert len(segment) % 4, "no spare bits in this one"
    return segment[:-1] + ALPHABET[ALPHABET.index(segment[-1]) ^ n]


def valid(name, tally=FRESH, policy=CONTACT, ring=(A,), identity=ALICE, now=NOW, own=None, token=None, ours=True):
    """ours says that the package, with this ring, writes this very token."""
    if token is None:
        token = wt.sign(ring[0], policy, identity, tally, own)
    vector = case(name, token, policy, ring, identity, now)
    verdict = wt.verify(policy, ring, identity, now, token)
    assert verdict["failure"] == "" and verdict["tally"] == tally and verdict.get("own") == own, (name, verdict)
    return vector | verdict | {"ours": ours}


def invalid(name, failure, token, **kwargs):
    vector = case(name, token, **kwargs)
    args = [kwargs.get("policy", CONTACT), kwargs.get("ring", (A,)), kwargs.get("identity", ALICE), kwargs.get("now", NOW)]
    verdict = wt.verify(*args, token)
    assert verdict["failure"] == failure, (name, verdict)
    return vector | {"failure": failure}
