#!/usr/bin/env python3
"""Writes vectors.json to standard output:

    python3 vectors.py >vectors.json

Every vector is a policy, a ring of secrets, an identity, a time and a token,
with what a verifier must answer. The secrets are for tests only.
"""

import json
import sys

sys.dont_write_bytecode = True

import ownvectors  # noqa: E402
import windowtoken as wt  # noqa: E402
from cases import (  # noqa: E402
    A, ALICE, B, BOB, C, CONTACT, DAY, EIGHT, FRESH, HOUR, MINUTE, MODEL, NOW, SIGNUP, SMALLER, TURNED, invalid, own, spare_bits, state, valid)


def valids():
    minute, hour, day, us = NOW // MINUTE, NOW // HOUR, NOW // DAY, NOW * wt.MICRO
    full = [state(NOW, 10, 10), state(minute, 100, 100), state(hour, 1000, 1000), state(day, 9999, 9999),
            state(us + 20_000_000), state(us + 2_000_000), state(hour, 5, 5), state(NOW // 600, 500, 500)]
    yield valid("sliding window", [state(minute, 1), state(), state()])
    yield valid("sliding window with a previous one", [state(minute, 3, 5), state(), state()])
    yield valid("only a previous window", [state(minute, 0, 5), state(), state()])
    yield valid("token bucket", [state(), state(), state(us + 1)])
    yield valid("token bucket that owes more than its burst", [state(), state(), state(us + 400_000_000, 100)])
    yield valid("all three", FRESH)
    yield valid("a window that begins within the clock skew", [state(minute + 1, 1), state(), state()])
    yield valid("eight limits, used to the full", full, EIGHT)
    yield valid("requests and tokens, whose costs differ", [state(minute, 3, 41), state(us + 7_200_600), state(NOW // (30 * DAY), 1_902_114)], MODEL)
    yield valid("tokens alone", [state(), state(us + 600), state(NOW // (30 * DAY), 1)], MODEL)
    yield valid("counts of a quota that was lowered", [state(minute, 2**31 - 1, 2**31 - 1), state(), state()])
    yield valid("another identity", FRESH, identity=BOB)
    yield valid("an identity longer than a block", FRESH, identity=bytes(range(256)) * 8)
    for n in (*range(41), 1000):
        yield valid("an identity of %d bytes" % n, FRESH, identity=bytes(i % 251 for i in range(n)))
    yield valid("another policy", FRESH, SIGNUP)
    for name in ("a", "of", "api", "demo"):  # which end at each place of a group of base64
        named = {"name": name, "limits": CONTACT["limits"]}
        yield valid("a policy named " + name, FRESH, named)
        yield valid("a policy named %s, rotation" % name, FRESH, named, ring=(B, A), token=wt.sign(A, named, ALICE, FRESH), ours=False)
    yield valid("the last second", FRESH, now=wt.expires(CONTACT["limits"], FRESH) - 1)
    yield valid("rotation: signed by the second key", ring=(B, A), token=wt.sign(A, CONTACT, ALICE, FRESH), ours=False)
    yield valid("rotation: signed by the first key", ring=(B, A))
    yield valid("a limit that is gone is skipped", FRESH[1:], SMALLER, token=wt.sign(A, CONTACT, ALICE, FRESH), ours=False)
    yield valid("limits in another order", FRESH[::-1], TURNED, token=wt.sign(A, CONTACT, ALICE, FRESH), ours=False)
    yield valid("a new limit is zero", [state(), *FRESH[1:]], token=wt.sign(A, SMALLER, ALICE, FRESH[1:]), ours=False)


def headers():
    """T10 and T11: each header but ours, signed with the right key."""
    kid = wt.kid(A, "contact")

    def fields(alg="HS256", kid=kid, typ=wt.TYPE, **more):
        return json.dumps({"alg": alg, "kid": kid, "typ": typ, **more}, separators=(",", ":"))

    for alg in ("none", "None", "noNE", "", "HS384", "HS512", "RS256", "ES256", "hs256", "Hs256"):
        yield "T10 alg " + (alg or "empty"), fields(alg=alg)
    yield "T10 no alg", '{"kid":"%s","typ":"%s"}' % (kid, wt.TYPE)
    yield "T10 alg twice", fields()[:-1] + ',"alg":"none"}'
    yield "T10 another order", '{"typ":"%s","alg":"HS256","kid":"%s"}' % (wt.TYPE, kid)
    yield "T10 spaces", json.dumps({"alg": "HS256", "kid": kid, "typ": wt.TYPE})
    yield "T10 escaped letters", fields().replace("HS256", "\\u0048S256")
    yield "T10 not an object", '"HS256"'
    yield "T10 empty", ""
    yield "T11 jku", fields(jku="https://attacker.example/keys")
    yield "T11 x5u", fields(x5u="https://attacker.example/cert")
    yield "T11 jwk", fields(jwk={"kty": "oct", "k": "AAAA"})
    yield "T11 crit", fields(crit=["exp"])
    yield "T11 b64", fields(b64=False)
    yield "T11 zip", fields(zip="DEF")
    yield "T11 kid is a path", fields(kid="../../etc/passwd")
    yield "T11 kid is SQL", fields(kid="' OR 1=1 --")
    yield "T11 kid is a number", '{"alg":"HS256","kid":12345,"typ":"%s"}' % wt.TYPE
    yield "T11 kid with control bytes", fields(kid="\r\n\u0000\u001b")
    yield "T11 kid of nobody", fields(kid="AAAA")
    yield "T11 kid in another case", fields(kid=kid.swapcase())
    yield "T11 no kid", '{"alg":"HS256","typ":"%s"}' % wt.TYPE
    yield "T15 typ of a challenge", fields(typ="challenge+jwt")
    yield "T15 typ of the former format", fields(typ="tally+jwt")
    yield "T15 typ JWT", fields(typ="JWT")
    yield "T15 typ in another case", fields(typ="T+JWT")
    yield "T15 no typ", '{"alg":"HS256","kid":"%s"}' % kid


def spellings():
    """T14 and T19: other spellings of one good token, and torn ones."""
    good = wt.sign(A, CONTACT, ALICE, FRESH)
    short = wt.sign(A, CONTACT, ALICE, [FRESH[0], state(), state()])
    head, body, signature = good.split(".")
    for i in range(1, 4):  # same 32 bytes, other spare bits
        yield f"T14 last character, variant {i}", "forged", head + "." + body + "." + spare_bits(signature, i)
    yield "T14 padding", "malformed", good + "="
    yield "T14 padding for the signature's last character", "forged", good[:-1] + "="
    yield "T14 standard base64", "forged", head + "." + body + "." + "+/" + signature[2:]
    yield "T14 line break after", "malformed", good + "\n"
    yield "T14 line break before", "foreign", "\r\n" + good
    yield "T14 line break in the payload", "forged", head + "." + body[:9] + "\r\n" + body[9:] + "." + signature
    yield "T14 line break in the signature", "malformed", good[:-9] + "\r\n" + good[-9:]
    yield "T14 a space in the header", "foreign", good[:9] + " " + good[9:]
    yield "T14 quoted", "malformed", '"' + good + '"'
    yield "two segments", "malformed", head + "." + body
    yield "four segments", "malformed", good + ".AAAA"
    yield "four segments, dots in place", "forged", head + "." + body + ".AAAA." + signature
    yield "five segments, as in JWE", "malformed", good + ".AAAA.AAAA"
    yield "five segments, dots in place", "forged", head + "." + body + ".AAAA.AAAA." + signature
    yield "empty signature", "malformed", head + "." + body + "."
    yield "empty payload", "malformed", head + ".." + signature
    yield "a payload that only begins", "forged", head + "." + wt.OPENING + "." + signature
    yield "a payload that hardly begins", "malformed", head + "." + wt.OPENING[:-1] + "." + signature
    yield "a payload that begins otherwise", "foreign", head + "." + "f" + body[1:] + "." + signature
    yield "empty", "malformed", ""
    yield "only dots", "foreign", "." * 150
    yield "two tokens with a comma", "forged", short + "," + short
    yield "two tokens with a comma, too long", "malformed", ",".join([short] * 3)
    yield "signature of another token", "forged", head + "." + body + "." + wt.sign(A, CONTACT, BOB, FRESH).split(".")[2]
    yield "not ASCII", "forged", head + "." + body[:9] + "\u00e9" + body[11:] + "." + signature
    yield "not ASCII at its beginning", "foreign", head + "." + "\u00e9" + body[2:] + "." + signature
    yield "T19 10 KB", "malformed", head + "." + "A" * 10_000 + "." + signature


def claims():
    """T15 and T18: payloads that we would not write, signed with the right key."""
    good = wt.payload(A, CONTACT, ALICE, FRESH)
    sub = wt.subject(A, "contact", ALICE)
    exp = wt.expires(CONTACT["limits"], FRESH)
    number = wt.limit_id(CONTACT["limits"][0])

    def entry(number=number, age=2, cur=1, prev=0, exp=exp):
        return '{"aud":"contact","sub":"%s","exp":%s,"t":[%s,%s,%s,%s]}' % (sub, exp, number, age, cur, prev)

    for text in ("1.0", "1.5", "1e3", "1E0", "-0", "-1", "+1", "01", "00", "0x1", "null", "true", '"1"', "", " 1", "1 ",
                 "[1]", "2147483648", "4294967295", "4294967296", "4294967297", "18446744073709551617", "9" * 40, "-2147483648"):
        yield "T18 count " + (text or "empty"), entry(cur=text)
        yield "T18 previous count " + (text or "empty"), entry(prev=text)
    for text in ("1.0", "-0", "02", "null", "9007199254740993", "-9007199254740993", "9" * 19, "-" + "9" * 19):
        yield "T18 age " + text, entry(age=text)
    for text in ("-1", "16777216", str(number + 2**32), "0" + str(number), "1e7", "null"):
        yield "T18 id " + text, entry(number=text)
    for text in ("%d.0" % exp, "%de0" % exp, "0%d" % exp, "-%d" % exp, str(2**33 + 1), str(2**63), str(2**64 + exp), '"%d"' % exp, "null"):
        yield "T18 exp " + text, entry(exp=text)
    # Windows whose number times their length does not fit 64 bits.
    yield "T18 a window after the end of time", entry(age=-(2**53))
    yield "T18 a window before 1970", entry(age=2**53)
    yield "T18 a mark before 1970", entry(number=wt.limit_id(CONTACT["limits"][2]), age=2**53, cur=0)
    yield "T18 three numbers", good.replace(",0]", "]")
    yield "T18 five numbers", good.replace("]", ",0]")
    yield "T15 aud of another policy", good.replace('"contact"', '"signup"')
    yield "T15 aud is a list", good.replace('"contact"', '["contact"]')
    yield "T15 aud in another case", good.replace('"contact"', '"Contact"')
    yield "a claim is missing", '{"aud":"contact","exp":%d,"t":[%d,2,1,0]}' % (exp, number)
    yield "no exp", good.replace('"exp":%d,' % exp, "")
    yield "a claim too many", good[:-1] + ',"iat":1}'
    yield "a claim in another case", good.replace('"exp"', '"EXP"')
    yield "a claim twice", good[:-1] + ',"exp":9999999999}'
    yield "a claim twice, first", good.replace('"exp"', '"exp":1,"exp"')
    yield "spaces", good.replace(":", ": ")
    yield "a space after", good + " "
    yield "a line break after", good + "\n"
    yield "something after", good + "{}"
    yield "comma after the last entry", good.replace("]", ",]")
    yield "no closing bracket", good[:-2]
    yield "t is null", good[:good.index("[")] + "null}"
    yield "t is an object", good.replace("[", "{").replace("]", "}")
    yield "sub is too short", good.replace(sub, sub[:-1])
    yield "sub is too long", good.replace(sub, sub + "A")
    yield "sub is null", good.replace('"%s"' % sub, "null")
    yield "not JSON", '{"aud" hello'
    yield "no payload at all", ""
    yield "only the beginning", '{"aud"'
    yield "only what is compared with the header", '{"aud'


def openings():
    """Payloads that do not begin as all of ours, signed with the right key."""
    good = wt.payload(A, CONTACT, ALICE, FRESH)
    sub, exp = wt.subject(A, "contact", ALICE), wt.expires(CONTACT["limits"], FRESH)
    yield "another order", '{"sub":"%s","aud":"contact","exp":%d,"t":[%d,2,1,0]}' % (sub, exp, wt.limit_id(CONTACT["limits"][0]))
    yield "no aud", good.replace('"aud":"contact",', "")
    yield "own: no aud", wt.payload(A, CONTACT, ALICE, FRESH, own()).replace('"aud":"contact",', "")
    yield "aud in another case", good.replace('"aud"', '"AUD"')
    yield "a space before", " " + good
    yield "not JSON at all", "hello"
    yield "a list", "[" + good + "]"
    yield "byte order mark", "\ufeff" + good


def invalids():
    good_body = wt.b64(wt.payload(A, CONTACT, ALICE, FRESH).encode())
    for name, text in headers():
        head = wt.b64(text.encode()) + "."
        token = wt.sign_text(A, "contact", head, good_body)
        long = len(token) > wt.MAX_LEN
        yield invalid(name, "malformed" if long else "foreign", token)
        if name.startswith("T10 alg"):
            yield invalid(name + ", unsigned", "malformed", head + good_body + ".")
    kid = json.dumps({"alg": "HS256", "kid": "k" * 10_000, "typ": wt.TYPE}, separators=(",", ":"))
    yield invalid("T11 kid of 10 KB", "malformed", wt.sign_text(A, "contact", wt.b64(kid.encode()) + ".", good_body))
    for name, failure, token in spellings():
        yield invalid(name, failure, token)
    for name, text in claims():
        yield invalid(name, "malformed", wt.sign_payload(A, "contact", text))
    for name, text in openings():
        yield invalid(name, "foreign", wt.sign_payload(A, "contact", text))

    head = wt.header(A, "contact")
    odd = wt.b64(wt.payload(A, SMALLER, ALICE, FRESH[1:]).encode())
    for name, segment in (("padding", odd + "=" * (-len(odd) % 4)), ("a dot", good_body + ".AAAA"),
                          ("a line break", good_body[:8] + "\n" + good_body[8:]), ("line breaks", good_body + "\r\n"),
                          ("letters of no alphabet", good_body + "!!!!"), ("spare bits", spare_bits(odd))):
        yield invalid("T14 payload with " + name + ", signed", "malformed", wt.sign_text(A, "contact", head, segment))

    yield invalid("T15 key and aud of another policy", "foreign", wt.sign(A, SIGNUP, ALICE, FRESH))
    yield invalid("T15 key of another policy under our header", "forged", wt.sign_text(A, "signup", head, good_body))
    yield invalid("T15 secret of another deployment", "foreign", wt.sign(B, CONTACT, ALICE, FRESH))
    yield invalid("T9 key of another deployment under our header", "forged", wt.sign_text(B, "contact", head, good_body))
    yield invalid("T13 a retired secret", "foreign", wt.sign(A, CONTACT, ALICE, FRESH), ring=(B, C))
    exp = wt.expires(CONTACT["limits"], FRESH)
    yield invalid("expired at the very second", "expired", wt.sign(A, CONTACT, ALICE, FRESH), now=exp)
    yield invalid("expired long ago", "expired", wt.sign(A, CONTACT, ALICE, FRESH), now=exp + DAY)
    yield invalid("somebody else's", "holder", wt.sign(A, CONTACT, BOB, FRESH))
    yield invalid("somebody else's, of an older key", "holder", wt.sign(A, CONTACT, BOB, FRESH), ring=(B, A))
    newer_subject = wt.payload(B, CONTACT, ALICE, FRESH)
    yield invalid("subject under another key than the signature's", "holder",
                  wt.sign_payload(A, "contact", newer_subject), ring=(B, A))
    yield invalid("expired and somebody else's", "expired", wt.sign(A, CONTACT, BOB, FRESH), now=exp)


def main():
    vectors = [*valids(), *ownvectors.valids(), *invalids(), *ownvectors.invalids()]
    assert len(vectors) == len({v["name"] for v in vectors}), "names must differ"
    policies = []  # named by index: several have the same name on purpose
    for v in vectors:
        if v["policy"] not in policies:
            policies.append(v["policy"])
        v["policy"] = policies.index(v["policy"])
    print('{"policies": [\n ' + ",\n ".join(map(json.dumps, policies)) + "\n],")
    print('"vectors": [\n ' + ",\n ".join(map(json.dumps, vectors)) + "\n]}")


if __name__ == "__main__":
    main()
