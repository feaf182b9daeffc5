// tallyFetch does the cases of clienttest, in Node.
import { tallyFetch } from "@tallystick/tally/fetch.js";

const cases = await (await fetch(`${process.env.CLIENTTEST_URL}/cases`)).json();
for (const { requests } of cases) {
  for (const { method, url, body } of requests) {
    await tallyFetch(url, { method, body: body || undefined }).then((r) => r.text()).catch(() => {});
  }
}
