// SPDX-License-Identifier: Apache-2.0

// Package dashboard writes the dashboard for Grafana: a table of questions and panels is read
// and reviewed more easily than its JSON.
package dashboard

import "encoding/json"

// A Question is a row of the dashboard: what an operator asks, and the panels that answer.
type Question struct {
	Text   string
	Panels []Panel
}

// A Panel is one answer.
type Panel struct {
	Title       string
	Description string // what is normal, and what is not
	Unit        string // of Grafana
	Max         float64
	Queries     []Query
}

// A Query is one expression of PromQL, and how its series are called.
type Query struct{ Expr, Legend string }

// hashes is the unit of prices. They double, so a linear axis would show the highest alone.
const hashes = "suffix: hashes"

const (
	every   = `{job=~"$job"}`
	of      = `{job=~"$job", tallystick_policy=~"$policy"}`
	refused = `{job=~"$job", tallystick_policy=~"$policy", tallystick_outcome!="admitted"}`
	window  = `[$__rate_interval]`
)

func rate(metric, matchers string) string { return "rate(" + metric + matchers + window + ")" }

func sum(by, expr string) string { return "sum by (" + by + ") (" + expr + ")" }

// share is the part that some of all are. Where there are none it is 0, and where there is
// nothing at all it is no line.
func share(by, part, all string) string {
	part, all = sum(by, part), sum(by, all)
	return "(" + part + " or 0 * " + all + ") / (" + all + " > 0)"
}

const decisions = "tallystick_decisions_total"

// Questions are the whole dashboard.
func Questions() []Question {
	const policy, policyReason, policyRoute = "tallystick_policy", "tallystick_policy, tallystick_reason", "tallystick_policy, http_route"
	return []Question{
		{"Who is limited, and why?", []Panel{
			{"Requests", "What was done with requests. Withheld are refusals that shadow mode did not carry out.", "reqps", 0, []Query{
				{sum("tallystick_outcome", rate(decisions, of)), "{{tallystick_outcome}}"}}},
			{"Refusals, by reason", "Why requests were refused. over-limit is what limits are for; the others are on docs/clients.md and in the reasons of package middleware.", "reqps", 0, []Query{
				{sum(policyReason, rate(decisions, refused)), "{{tallystick_policy}}: {{tallystick_reason}}"}}},
			{"Refused, by route", "The part of each route's requests that was refused.", "percentunit", 1, []Query{
				{share(policyRoute, rate(decisions, refused), rate(decisions, of)), "{{tallystick_policy}} {{http_route}}"}}},
			{"Refused, customers and strangers", "The part that was refused of customers that the program knows, and of addresses. Customers that are refused have outgrown their plan, or have a loop.", "percentunit", 1, []Query{
				{share("tallystick_authenticated", rate(decisions, refused), rate(decisions, of)), "authenticated: {{tallystick_authenticated}}"}}},
		}},
		{"Is it an attack?", []Panel{
			{"Strangers refused", "Refusals of addresses. One client that loops is one line in the refusal log; many clients that are new are an attack, or a success.", "reqps", 0, []Query{
				{sum(policy, `rate(`+decisions+`{job=~"$job", tallystick_policy=~"$policy", tallystick_outcome!="admitted", tallystick_authenticated="false"}`+window+`)`), "{{tallystick_policy}}"}}},
			{"Admitted, now and an hour ago", "What gets through. A limit does its work where this stays as it was while refusals rise.", "reqps", 0, []Query{
				{sum(policy, rate(decisions, `{job=~"$job", tallystick_policy=~"$policy", tallystick_outcome="admitted"}`)), "{{tallystick_policy}}"},
				{sum(policy, `rate(`+decisions+`{job=~"$job", tallystick_policy=~"$policy", tallystick_outcome="admitted"}`+window+` offset 1h)`), "{{tallystick_policy}}, an hour ago"}}},
			{"Price of a tally", "The mean work of all challenges, and of those that went out with refusals the one in the middle, the dearest twentieth and the highest. A mean or a highest that rises alone: few addresses have bought much, or hide a crowd. A middle that rises: many addresses have bought.", hashes, 0, []Query{
				{sum(policy, rate("tallystick_challenges_work_total", of)) + " / (" + sum(policy, rate("tallystick_challenges_total", of)) + " > 0)", "{{tallystick_policy}}: mean"},
				{"histogram_quantile(0.5, " + sum("le, tallystick_policy", rate("tallystick_challenge_work_bucket", of)) + ")", "{{tallystick_policy}}: middle"},
				{"histogram_quantile(0.95, " + sum("le, tallystick_policy", rate("tallystick_challenge_work_bucket", of)) + ")", "{{tallystick_policy}}: dearest twentieth"},
				{"max by (tallystick_policy) (tallystick_challenges_work_highest" + of + ")", "{{tallystick_policy}}: highest"}}},
			{"Busy", "How many instances are above the load that Challenge.BusyPerSecond or BusyAtOnce has set, and ask newcomers for work.", "short", 0, []Query{
				{sum(policy, "tallystick_busy"+of), "{{tallystick_policy}}"}}},
		}},
		{"Is the exact counter healthy?", []Panel{
			{"Down, or refusing", "How many instances find that the counter does not answer, or that it answers and refuses nearly everybody as load. 0 is well.", "short", 0, []Query{
				{sum(policy, "tallystick_exact_down"+of), "{{tallystick_policy}}: down"},
				{sum(policy, "tallystick_exact_refusing"+of), "{{tallystick_policy}}: refusing"}}},
			{"Decided without it", "The part of decisions that was made by Exact.Outage, because the counter did not answer.", "percentunit", 1, []Query{
				{"(" + sum(policy, rate("tallystick_decisions_degraded_total", of)) + " or 0 * " + sum(policy, rate("tallystick_exact_call_duration_seconds_count", of)) + ") / (" + sum(policy, rate(decisions, of)) + " > 0)", "{{tallystick_policy}}"}}},
			{"Calls, by result", "answered is well. busy, full and contended are load, and answered 503; failed and down are calls without an answer; skipped were not made in an outage.", "ops", 0, []Query{
				{sum("tallystick_policy, tallystick_exact_result", rate("tallystick_exact_call_duration_seconds_count", of)), "{{tallystick_policy}}: {{tallystick_exact_result}}"}}},
			{"How long a call takes", "Of calls that were answered. Exact.Deadline should be four times of what is usual.", "s", 0, []Query{
				{"histogram_quantile(0.5, " + sum("le, tallystick_policy", rate("tallystick_exact_call_duration_seconds_bucket", `{job=~"$job", tallystick_policy=~"$policy", tallystick_exact_result="answered"}`)) + ")", "{{tallystick_policy}}: middle"},
				{"histogram_quantile(0.99, " + sum("le, tallystick_policy", rate("tallystick_exact_call_duration_seconds_bucket", `{job=~"$job", tallystick_policy=~"$policy", tallystick_exact_result="answered"}`)) + ")", "{{tallystick_policy}}: slowest hundredth"}}},
			{"Places taken", "The share of Exact.InFlight on the fullest instance. Addresses are refused at three quarters.", "percentunit", 1, []Query{
				{"max by (tallystick_policy) (tallystick_exact_utilization_ratio" + of + ")", "{{tallystick_policy}}"}}},
			{"Refunds that came too late", "Charges that the middleware or a handler wanted to give back, and that stayed, because it was too late.", "ops", 0, []Query{
				{sum(policy, rate("tallystick_exact_refunds_late_total", of)), "{{tallystick_policy}}"}}},
		}},
		{"Is the memory filling?", []Panel{
			{"Memory in use", "The share of its cells on the fullest instance, of the limit that has the most. From 0.8 on, sets of cells begin to be full.", "percentunit", 1, []Query{
				{"max by (tallystick_policy) (tallystick_memory_utilization_ratio" + of + ")", "{{tallystick_policy}}"}}},
			{"What newcomers begin with", "The part of its quota that a newcomer to a full memory is counted for before its first request, in the mean of those that are. At 1 they are refused at once. None: no newcomer was.", "percentunit", 1, []Query{
				{sum(policy, rate("tallystick_memory_inheritances_quotas_total", of)) + " / (" + sum(policy, rate("tallystick_memory_inheritances_total", of)) + " > 0)", "{{tallystick_policy}}"}}},
			{"Newcomers counted early", "How many requests a second come from such newcomers.", "reqps", 0, []Query{
				{sum(policy, rate("tallystick_memory_inheritances_total", of)), "{{tallystick_policy}}"}}},
			{"Sales refused", "Sales and proofs that were refused because the memory had no room for what is paid.", "ops", 0, []Query{
				{sum(policy, rate("tallystick_memory_saturations_total", of)), "{{tallystick_policy}}"}}},
		}},
		{"Do honest phones fail?", []Panel{
			{"Proofs, by result", "expired: too slow, or a phone that slept. client-changed: the address changed between challenge and proof. price-risen: others bought meanwhile. secret-unknown and clock-differs: instances disagree. wrong-solution and replayed are programs.", "ops", 0, []Query{
				{sum("tallystick_policy, tallystick_proof_result", rate("tallystick_proofs_total", of)), "{{tallystick_policy}}: {{tallystick_proof_result}}"}}},
			{"Work done in vain", "The part of proofs that was not accepted, by what honest clients meet.", "percentunit", 1, []Query{
				{sum("tallystick_policy, tallystick_proof_result", rate("tallystick_proofs_total", `{job=~"$job", tallystick_policy=~"$policy", tallystick_proof_result=~"expired|client-changed|price-risen|secret-unknown|clock-differs"}`)) +
					" / on (tallystick_policy) group_left () (" + sum(policy, rate("tallystick_proofs_total", of)) + " > 0)", "{{tallystick_policy}}: {{tallystick_proof_result}}"}}},
			{"Challenges and proofs", "Challenges that were issued, and proofs that bought something. Most challenges are never solved: each refusal has one.", "ops", 0, []Query{
				{sum(policy, rate("tallystick_challenges_total", of)), "{{tallystick_policy}}: challenges"},
				{sum(policy, rate("tallystick_proofs_total", `{job=~"$job", tallystick_policy=~"$policy", tallystick_proof_result="accepted"}`)), "{{tallystick_policy}}: accepted"}}},
		}},
		{"Do the instances agree?", []Panel{
			{"Secrets", "How many instances have each secret, by its key id. The lines of a policy are one line, but while a rotation is rolled out.", "short", 0, []Query{
				{"count by (tallystick_policy, tallystick_kid) (tallystick_secret" + of + ")", "{{tallystick_policy}}: {{tallystick_kid}}"}}},
			{"Tokens, by result", "clock-differs: a clock is wrong, and no client can raise it. secret-unknown: another secret has signed, or a client has written it. expired: clients that keep tokens. client-changed: phones, and thieves. forged: programs.", "ops", 0, []Query{
				{sum("tallystick_policy, tallystick_token_result", rate("tallystick_tokens_total", of)), "{{tallystick_policy}}: {{tallystick_token_result}}"}}},
			{"Policies reloaded", "The part of the instances whose last reload of the policy file succeeded. Below 1 some serve what is old.", "percentunit", 1, []Query{
				{"avg(tallystick_reload_success" + every + ")", "succeeded"}}},
			{"Age of the policies", "How long ago the policy file was read, by the instance that read it last and by the one that read it first. Two lines that stay apart: one instance did not get the signal.", "s", 0, []Query{
				{"time() - max(tallystick_reload_time_seconds" + every + ")", "newest"}, {"time() - min(tallystick_reload_time_seconds" + every + ")", "oldest"}}},
		}},
		{"Do the instances hear each other?", []Panel{
			{"Peers", "How many peers each instance hears, and how many it does not. silent is 0 but for deploys.", "short", 0, []Query{
				{`min(tallystick_peers{job=~"$job", tallystick_peer_state="heard"})`, "heard, least"},
				{`max(tallystick_peers{job=~"$job", tallystick_peer_state="heard"})`, "heard, most"},
				{`max(tallystick_peers{job=~"$job", tallystick_peer_state="silent"})`, "silent"}}},
			{"Peers gone, and strangers", "Peers that fell silent for 10 seconds, and connections to their port that showed no secret.", "ops", 0, []Query{
				{sum("instance", rate("tallystick_peers_gone_total", every)), "gone {{instance}}"},
				{sum("instance", rate("tallystick_peers_strangers_total", every)), "strangers {{instance}}"}}},
			{"Requests that waited for peers", "Requests that were decided when peers had answered. busy are those that no peer had answered in time, and that were 503.", "ops", 0, []Query{
				{"sum(" + rate("tallystick_peers_requests_waited_total", every) + ")", "waited"},
				{"sum(" + rate("tallystick_peers_requests_busy_total", every) + ")", "busy"}}},
			{"Slack in use", "The most of one tally that an instance has admitted and not all of its peers have heard of. A fleet that hears itself stays at the slack of its largest limit.", "short", 0, []Query{
				{"max by (instance) (tallystick_peers_slack" + every + ")", "{{instance}}"}}},
			{"Records of peers", "Tallies that are remembered of all instances, of 32,768. evicted are those that made room while they counted.", "short", 0, []Query{
				{"max by (instance) (tallystick_peers_records" + every + ")", "{{instance}}"},
				{sum("instance", rate("tallystick_peers_records_evicted_total", every)), "evicted {{instance}}"}}},
		}},
	}
}

// object is JSON.
type object = map[string]any

// variable is what the reader of a dashboard chooses, out of what a query finds.
func variable(name, label, query string) object {
	return object{
		"name": name, "type": "query", "label": label, "datasource": source, "definition": query,
		"query":   object{"query": query, "refId": name},
		"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
		"current": object{"text": "All", "value": "$__all"},
	}
}

// source is the Prometheus that the reader chooses.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// JSON returns the dashboard as Grafana imports it.
func JSON() ([]byte, error) {
	const width = 24 // of Grafana's grid
	var panels []any
	id, y := 0, 0
	for _, q := range Questions() {
		id++
		panels = append(panels, object{
			"id": id, "type": "row", "title": q.Text, "collapsed": false, "panels": []any{},
			"gridPos": object{"x": 0, "y": y, "w": width, "h": 1},
		})
		y++
		const height, inLine = 8, 3
		for i, p := range q.Panels {
			id++
			var targets []any
			for n, query := range p.Queries {
				targets = append(targets, object{
					"refId": string(rune('A' + n)), "datasource": source, "expr": query.Expr, "legendFormat": query.Legend, "range": true,
				})
			}
			defaults := object{"unit": p.Unit, "min": 0}
			if p.Unit == hashes {
				defaults = object{"unit": p.Unit, "custom": object{"scaleDistribution": object{"type": "log", "log": 2}}}
			}
			if p.Max > 0 {
				defaults["max"] = p.Max
			}
			panels = append(panels, object{
				"id": id, "type": "timeseries", "title": p.Title, "description": p.Description, "datasource": source,
				"gridPos":     object{"x": width / inLine * (i % inLine), "y": y + height*(i/inLine), "w": width / inLine, "h": height},
				"fieldConfig": object{"defaults": defaults, "overrides": []any{}},
				"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
				"targets":     targets,
			})
		}
		y += height * ((len(q.Panels) + inLine - 1) / inLine)
	}
	text, err := json.MarshalIndent(object{
		"uid": "tallystick", "title": "Tallystick", "description": "Who is limited and why. See docs/watching.md.",
		"tags": []string{"tallystick", "rate limit"}, "schemaVersion": 39, "version": 1, "editable": true,
		"timezone": "browser", "refresh": "30s", "time": object{"from": "now-3h", "to": "now"},
		"templating": object{"list": []any{
			object{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
			variable("job", "Job", "label_values(tallystick_memory_utilization_ratio, job)"),
			variable("policy", "Policy", "label_values(tallystick_memory_utilization_ratio"+every+", tallystick_policy)"),
		}},
		"annotations": object{"list": []any{}}, "panels": panels,
	}, "", "  ")
	return append(text, '\n'), err
}
