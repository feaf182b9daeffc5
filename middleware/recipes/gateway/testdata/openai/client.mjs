// SPDX-License-Identifier: Apache-2.0

// What a program does with the client of OpenAI and a gateway: node client.mjs URL DOES. It prints what the program sees.

import OpenAI from "openai";

const [, , url, does] = process.argv;

// The client waits in its sleep.mjs. Instead of a wait the gateway's clock goes on.
const { setTimeout } = globalThis;
let waited = 0;
globalThis.setTimeout = (done, ms, ...args) => {
	if (!new Error().stack.includes("/openai/internal/utils/sleep.mjs")) return setTimeout(done, ms, ...args);
	waited += ms;
	fetch(url + "/wait?ms=" + ms, { method: "POST" }).then(done);
};

const client = new OpenAI({ baseURL: url, apiKey: does === "key" ? "none" : "sk-ada" });
const ask = (content, more) =>
	client.chat.completions.create({ model: "m", messages: [{ role: "user", content }], ...more }).withResponse();
const left = (headers) => headers.get("x-ratelimit-remaining-requests") + " " + headers.get("x-ratelimit-remaining-tokens");

const programs = {
	async answer() {
		const { data, response } = await ask("use 42", { max_tokens: 500 });
		return [data.choices[0].message.content, data.usage.total_tokens, left(response.headers)];
	},
	async stream(more) {
		const { data, response } = await ask("use 42", { max_tokens: 500, stream: true, ...more });
		let text = "", tokens = 0, empty = 0;
		for await (const chunk of data) {
			text += chunk.choices[0]?.delta.content ?? "";
			tokens += chunk.usage?.total_tokens ?? 0;
			if (chunk.choices.length === 0) empty++;
		}
		const next = await ask("use 42", { max_tokens: 500 });
		return [text, tokens, empty, left(response.headers), left(next.response.headers)];
	},
	usage: () => programs.stream({ stream_options: { include_usage: true } }),
	async minute() {
		await ask("use 90000");
		const { data, response } = await ask("use 42", { max_tokens: 500 });
		return [data.choices[0].message.content, waited, left(response.headers)];
	},
	month: () => ask("use 42"),
	large: () => ask("use 42", { max_tokens: 100_000 }),
	key: () => ask("use 42"),
};

try {
	console.log(...(await programs[does]()));
} catch (err) {
	console.log(err.constructor.name, err.status, err.code, err.type, waited);
}
process.exit(0);
