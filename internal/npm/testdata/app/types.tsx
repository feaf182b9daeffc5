import type { TallyCheckAttributes } from "@tallystick/tally";

export const plain = <tally-check endpoint="/tally/signup/"></tally-check>;
export const full = <tally-check endpoint="/tally/" auto="focus" cost={3} max-work={1 << 20} text-idle="Ready." class="wide" hidden />;
export const byProperty = <tally-check endpoint="/tally/" form="signup" maxWork={1 << 20} auto={null} disabled={false} />;
export const attributes: TallyCheckAttributes = { endpoint: "/tally/", "data-test": "check" };
// @ts-expect-error it is no use without
export const nowhere = <tally-check />;
// @ts-expect-error there is no such way to begin
export const odd = <tally-check endpoint="/tally/" auto="always" />;
