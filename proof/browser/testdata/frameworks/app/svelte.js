import "@tallystick/tally";
import { flushSync, hydrate, mount } from "svelte";
import App from "./app.client.js";
import { first, then } from "./props.js";

const box = document.querySelector("#app");
const app = (box.hasChildNodes() ? hydrate : mount)(App, { target: box, props: { first } });
window.update = () => flushSync(() => app.update(then));
window.rendered = true;
