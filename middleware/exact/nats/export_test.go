package nats

// Classify says what has become of a swap.
var Classify = classify
