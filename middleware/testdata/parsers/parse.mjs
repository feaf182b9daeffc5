// Reads, by the packages that clients use, the fields of each of the responses on stdin:
// {"now": milliseconds, "responses": [{"name": "value", ...}, ...]}, names in small letters.
import { readFileSync } from "node:fs";
import { parseRateLimit } from "ratelimit-header-parser";
import { parseDictionary, parseItem, parseList } from "structured-headers";

const { now, responses } = JSON.parse(readFileSync(0, "utf8"));

// ratelimit-header-parser adds a reset in seconds to the time of day. Here that is the time
// of the test.
globalThis.Date = class extends Date {
	constructor(...of) {
		super(...(of.length ? of : [now]));
	}
};

const items = (list) => list.map(([value, params]) => [value, Object.fromEntries(params)]);

const structured = (fields) => {
	const read = {};
	for (const [name, value] of Object.entries(fields)) {
		if (name === "ratelimit-policy" || (name === "ratelimit" && value.startsWith('"'))) {
			read[name] = items(parseList(value));
		} else if (name === "ratelimit") {
			read[name] = Object.fromEntries([...parseDictionary(value)].map(([key, [of]]) => [key, of]));
		} else if (/^(x-)?(ratelimit|quota)-/.test(name)) {
			read[name] = parseItem(value)[0];
		}
	}
	return read;
};

console.log(JSON.stringify(responses.map((fields) => {
	const parsed = parseRateLimit(fields);
	return {
		parsed: parsed && { limit: parsed.limit, used: parsed.used, remaining: parsed.remaining, reset: (parsed.reset?.getTime() - now) / 1000 },
		structured: structured(fields),
	};
})));
