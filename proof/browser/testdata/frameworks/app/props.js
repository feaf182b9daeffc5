// What each program gives the element, as its framework assigns it, and then what it takes away.
export const first = { endpoint: "/tally/signup/", form: "signup", auto: "focus", cost: 2, maxWork: 2**27, disabled: true };
export const then = { endpoint: "/tally/signup/", form: "signup", auto: null, cost: null, maxWork: 2**26, disabled: false };
