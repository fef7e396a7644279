// Package trace keeps what the last runs did, so that a run can be read
// afterwards without a collector.
//
//	runs, err := trace.Open("data/traces", nil)
//	for ev, err := range runs.Keep(h.Stream(ctx, target, req)) { ... }
//
//	run, err := trace.Read("data/traces", trace.Last)
//	run.Write(os.Stdout)
//
// A run is a file of its events, one in a line, which are written as they happen:
// what a killed process did can be read as well. Of the pieces of an answer only
// the first is kept, which tells when it came; contents beyond a bound are left
// out. The files hold what people and models said, for this user's eyes alone.
package trace
