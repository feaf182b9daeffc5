import "@tallystick/tally";
import { createElement as h } from "react";
import { flushSync } from "react-dom";
import { createRoot, hydrateRoot } from "react-dom/client";
import { App } from "./react.app.js";
import { first, then } from "./props.js";

const box = document.querySelector("#app"), byScript = location.search === "?action";
window.failed = [];
const onRecoverableError = (error) => failed.push(String(error));
let root;
if (box.hasChildNodes()) root = hydrateRoot(box, h(App, { check: first }), { onRecoverableError });
else flushSync(() => (root = createRoot(box)).render(h(App, { check: first, byScript })));
window.update = () => flushSync(() => root.render(h(App, { check: then, byScript })));
window.rendered = true;
