import "@tallystick/tally";
import { createApp, createSSRApp, h, nextTick, reactive } from "vue";
import { App } from "./vue.app.js";
import { first, then } from "./props.js";

const box = document.querySelector("#app"), check = reactive({ ...first });
(box.hasChildNodes() ? createSSRApp : createApp)({ render: () => h(App, { check }) }).mount(box);
window.update = () => (Object.assign(check, then), nextTick());
window.rendered = true;
