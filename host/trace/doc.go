// Package trace keeps the events of the last runs, so that a run can be read
// afterwards without a collector.
//
//	runs, err := trace.Open("data/traces", &trace.Options{Keys: store.Keys()})
//	h, err := host.New(&host.Options{Trace: runs})
//
//	run, err := trace.Read("data/traces", trace.Last, &trace.ReadOptions{Tenant: "acme", Keys: store.Keys()})
//	run.Write(os.Stdout)
//
// A run is a file of its events, one in a line, which are written as they happen:
// the runs of a killed process can be read as well. Of the pieces of an answer
// only the first is kept, for its time; contents beyond a bound are left out. The
// files hold the words of people and models, and only this user may read them. Each
// line has a digest: damaged lines are counted and left out.
//
// A host keeps all of its runs, those of sessions and in the background among them.
// Each tenant's are in a directory of their own and, with Keys, encrypted: they are
// erased with their thread ([Log.EraseThread]) and with their tenant
// ([Log.EraseTenant]).
package trace
