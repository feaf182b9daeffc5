// A page's program, as a bundler gets it.
import { tallyFetch } from "@tallystick/tally";
import "@tallystick/tally/tally.css";

globalThis.started = (globalThis.started ?? 0) + 1;
globalThis.tallyFetch = tallyFetch;
if (globalThis.document) document.title = "started";
else fetch("/started-in-a-worker");
