// What a server renders, as JSON: the element's module is imported there too.
import "@tallystick/tally";
import { createElement } from "react";
import { renderToString as renderReact } from "react-dom/server";
import { render as renderSvelte } from "svelte/server";
import { createSSRApp, h } from "vue";
import { renderToString as renderVue } from "vue/server-renderer";
import { App as ReactApp } from "./react.app.js";
import SvelteApp from "./app.server.js";
import { App as VueApp } from "./vue.app.js";
import { first } from "./props.js";

const react = renderReact(createElement(ReactApp, { check: first }));
renderVue(createSSRApp({ render: () => h(VueApp, { check: first }) })).then((vue) => console.log(JSON.stringify({
	react,
	preact: react, // which writes the same
	vue,
	svelte: renderSvelte(SvelteApp, { props: { first } }).body,
})));
