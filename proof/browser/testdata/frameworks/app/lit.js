import "@tallystick/tally";
import { html, render } from "lit";
import { first, then } from "./props.js";

const App = (check) => html`<main>
	<form id="signup" method="post" action="/signup"><input name="message" value="hello"><button id="send">Send</button></form>
	<tally-check .endpoint=${check.endpoint} .form=${check.form} .auto=${check.auto} .cost=${check.cost} .maxWork=${check.maxWork} .disabled=${check.disabled}></tally-check>
</main>`;
const box = document.querySelector("#app");
render(App(first), box);
window.update = () => render(App(then), box);
window.rendered = true;
