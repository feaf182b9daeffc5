// The clock stands still, as that of the other measures does.
globalThis.Date = class extends Date {
	constructor(...args) {
		super(...(args.length ? args : [0]));
	}
	static now() {
		return 0;
	}
};
