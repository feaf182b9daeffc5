"""The cases of vectors.py for own tallies."""

import windowtoken as wt
from cases import (
    A, ALICE, B, BOB, C, CONTACT, DAY, EIGHT, FRESH, HOUR, MINUTE, NOW, SIGNUP, invalid, own, state, valid)


def valids():
    """Bound, unbound, fresh, and over their whole life."""
    minute, day, us = NOW // MINUTE, NOW // DAY, NOW * wt.MICRO
    none, free, bound = [state()] * 3, own(), own(bound=True)
    full = [state(NOW, 10, 10), state(minute, 100, 100), state(NOW // HOUR, 1000, 1000), state(day, 9999, 9999),
            state(us + 20_000_000), state(us + 2_000_000), state(NOW // HOUR, 5, 5), state(NOW // 600, 500, 500)]
    yield valid("own: fresh", none, own=free)
    yield valid("own: fresh and bound", none, own=bound)
    yield valid("own: used", own=free)
    yield valid("own: used and bound", own=bound)
    yield valid("own: shown by somebody else", own=free, identity=BOB, token=wt.sign(A, CONTACT, ALICE, FRESH, free))
    yield valid("own: of another policy", own=own(policy=SIGNUP), policy=SIGNUP)
    yield valid("own: bound, of an identity longer than a block", own=bound, identity=bytes(range(256)) * 8)
    yield valid("own: id of zeros", own=free | {"id": "00" * 6})
    yield valid("own: id of ones", own=free | {"id": "ff" * 6})
    yield valid("own: id with - and _", own=free | {"id": "fbf0fbf0fbf0"})
    yield valid("own: the last second", own=free, now=free["expires"] - 1)
    yield valid("own: the last second, fresh", none, own=bound, now=bound["expires"] - 1)
    yield valid("own: ends in the next second, its marks later", own=own(ends=NOW + 1))
    yield valid("own: a window that begins after the end", [state(minute + 2, 1), state(), state()], own=own(ends=NOW + 1))
    yield valid("own: the end of time", own=own(ends=2**33))
    yield valid("own: eight limits, used to the full, bound", full, EIGHT, own=own(bound=True, policy=EIGHT))
    yield valid("own: rotation, signed by the second key", ring=(B, A), own=free,
                token=wt.sign(A, CONTACT, ALICE, FRESH, free), ours=False)
    yield valid("own: rotation, signed by the second key, bound", ring=(B, A), own=bound,
                token=wt.sign(A, CONTACT, ALICE, FRESH, bound), ours=False)
    yield valid("own: rotation, signed by the first key, bound", ring=(B, A), own=bound)
    for name in ("a", "of", "api", "demo"):
        named = {"name": name, "limits": CONTACT["limits"]}
        for kind, tally in (("own", free), ("own, bound", bound)):
            yield valid("%s: a policy named %s" % (kind, name), FRESH, named, own=tally)
            yield valid("%s: a policy named %s, rotation" % (kind, name), FRESH, named, ring=(B, A), own=tally,
                        token=wt.sign(A, named, ALICE, FRESH, tally), ours=False)
    gone = [state(), state(), FRESH[2]]
    yield valid("own: all its limits are gone", [state()], CONTACT | {"limits": CONTACT["limits"][:1]}, own=free,
                token=wt.sign(A, CONTACT, ALICE, gone, free), ours=False)


def claims():
    """T15 and T18 for own tallies: fam, sub and exp as we would not write them."""
    free, bound = (wt.payload(A, CONTACT, ALICE, FRESH, own(bound=b)) for b in (False, True))
    shared = wt.payload(A, CONTACT, ALICE, FRESH)
    sub, end, number = wt.subject(A, "contact", ALICE), own()["expires"], wt.limit_id(CONTACT["limits"][0])
    fam = wt.b64(bytes.fromhex(own()["id"]))
    both, exp = '"sub":"%s","fam":"%s"' % (sub, fam), '"exp":%d' % end
    assert both in bound and exp in bound and '"fam":"%s"' % fam in free

    def entry(number=number, age=2, cur=1, prev=0, end=end):
        return '{"aud":"contact","fam":"%s","exp":%s,"t":[%s,%s,%s,%s]}' % (fam, end, number, age, cur, prev)

    yield "neither sub nor fam", free.replace('"fam":"%s",' % fam, "")
    yield "neither sub nor fam, nothing counted", '{"aud":"contact",%s,"t":[]}' % exp
    yield "a shared tally that has counted nothing", shared[:shared.index("[")] + "[]}"
    yield "own: no exp", free.replace(exp + ",", "")
    yield "own: bound, no exp", bound.replace(exp + ",", "")
    yield "own: no t", free[:free.index(',"t"')] + "}"
    yield "own: fam before sub", bound.replace(both, '"fam":"%s","sub":"%s"' % (fam, sub))
    yield "own: exp before fam", free.replace('"fam":"%s",%s' % (fam, exp), '%s,"fam":"%s"' % (exp, fam))
    yield "own: fam at the end", shared[:-1] + ',"fam":"%s"}' % fam
    yield "own: fam twice", free.replace('"exp"', '"fam":"%s","exp"' % fam)
    yield "own: sub twice", bound.replace('"fam"', '"sub":"%s","fam"' % sub)
    for text in ("null", "true", "7", "[]", "{}", '""', '"%s"' % fam[:7], '"%sA"' % fam, '"%s="' % fam, '"%s"' % (fam[:7] + "="),
                 '"%s"' % (fam[:6] + "=="), '"+/+/+/+/"', '"AAAAA\nAA"', '"AAAAA\n\n\n"',
                 '"%s"' % (fam[:6] + "\\n" + fam[6:]), '"%s"' % (fam[:6] + "\n" + fam[6:7]),
                 '"%s"' % (fam[:6] + "\n" + fam[6:]), '"%s"' % (fam[:6] + "\u00e9"), '"%s"' % fam[:4], '"%sAAA"' % fam,
                 '"%sAAAA"' % fam):  # the last is as the first versions wrote it
        yield "own: fam " + text, free.replace('"%s"' % fam, text)
        yield "own: bound, fam " + text, bound.replace('"%s"' % fam, text)
    for text in ("null", '""', "7", '"%s"' % sub[:-1], '"%sA"' % sub):
        yield "own: sub " + text, bound.replace('"%s"' % sub, text)
    for text in ("FAM", "Fam", "fan", "famm", "fa", "f"):
        yield "own: fam spelled " + text, free.replace('"fam"', '"%s"' % text)
    yield "own: sub spelled SUB", bound.replace('"sub"', '"SUB"')
    yield "own: sub spelled s", bound.replace('"sub"', '"s"')
    yield "T15 own: aud of another policy", free.replace('"contact"', '"signup"')
    yield "own: a claim too many", free[:-1] + ',"iat":1}'
    yield "own: a space after", free + " "
    yield "own: spaces", free.replace(":", ": ")
    for text in ("0", "-1", "-0", "01", "null", str(2**33 + 1), str(2**63), "%d.0" % end, '"%d"' % end):
        yield "T18 own: exp " + text, free.replace(str(end), text)
        yield "T18 own: bound, exp " + text, bound.replace(str(end), text)
    for text in ("2147483648", "-1", "1.0", "null"):
        yield "T18 own: count " + text, entry(cur=text)
        yield "T18 own: previous count " + text, entry(prev=text)
    for text in ("9007199254740993", "-9007199254740993", "1e3", "-0", "9" * 19):
        yield "T18 own: age " + text, entry(age=text)
    mark = wt.limit_id(CONTACT["limits"][2])
    yield "T18 own: a window after the end of time", entry(age=end // MINUTE - 2**33 // MINUTE - 1)
    yield "T18 own: a window before 1970", entry(age=end // MINUTE + 1)
    yield "T18 own: a mark after the end of time", entry(number=mark, age=(end - 2**33) * wt.MICRO - 1, cur=0)
    yield "T18 own: a mark before 1970", entry(number=mark, age=end * wt.MICRO + 1, cur=0)


def invalids():
    free, bound = own(), own(bound=True)
    for name, text in claims():
        yield invalid(name, "malformed", wt.sign_payload(A, "contact", text))
    yield invalid("own: somebody else's, bound", "holder", wt.sign(A, CONTACT, BOB, FRESH, bound))
    yield invalid("own: somebody else's, bound and fresh", "holder", wt.sign(A, CONTACT, BOB, [state()] * 3, bound))
    yield invalid("own: somebody else's, bound, of an older key", "holder",
                  wt.sign(A, CONTACT, BOB, FRESH, bound), ring=(B, A))
    yield invalid("own: bound under another key than the signature's", "holder",
                  wt.sign_payload(A, "contact", wt.payload(B, CONTACT, ALICE, FRESH, bound)), ring=(B, A))
    for name, tally in (("", free), ("bound, ", bound)):
        token = wt.sign(A, CONTACT, ALICE, FRESH, tally)
        yield invalid("own: %sexpired at the very second" % name, "expired", token, now=tally["expires"])
        yield invalid("own: %sexpired long ago" % name, "expired", token, now=tally["expires"] + DAY)
        yield invalid("T13 own: %sa retired secret" % name, "foreign", token, ring=(B, C))
        yield invalid("T9 own: %ssignature of another" % name, "forged",
                      token[:-wt.SIGNATURE] + wt.sign(A, CONTACT, ALICE, FRESH)[-wt.SIGNATURE:])
        yield invalid("T15 own: %skey and aud of another policy" % name, "foreign", wt.sign(A, SIGNUP, ALICE, FRESH, tally))
    yield invalid("own: expired before its windows have passed", "expired", wt.sign(A, CONTACT, ALICE, FRESH, own(ends=NOW)))
    yield invalid("own: expired and somebody else's", "expired", wt.sign(A, CONTACT, BOB, FRESH, bound), now=bound["expires"])
