// compile writes what Svelte makes of app.svelte, for browsers and for servers, into a folder.
import { readFileSync, writeFileSync } from "node:fs";
import { compile } from "svelte/compiler";

const [, , dir] = process.argv;
for (const generate of ["client", "server"]) {
	const { js } = compile(readFileSync(`${dir}/app.svelte`, "utf8"), { generate, name: "App" });
	writeFileSync(`${dir}/app.${generate}.js`, js.code);
}
