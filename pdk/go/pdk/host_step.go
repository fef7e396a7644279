package pdk

// StepOptions are the optional parts of [Step].
type StepOptions struct {
	Idempotent bool // to run f twice is to run it once
}

// Step runs f once per run and name, in a tool, and returns its result: any JSON. A
// later Step of the name returns the first one's, in a durable run also in another
// process. A failure is not kept: the next Step of the name runs f again. If the
// host's process ended while f ran, the effects of f are unknown: the error is
// [FailedPrecondition], unless the step is idempotent. A host without steps runs f.
func Step(name string, opts StepOptions, f func() (Raw, error)) (Raw, error) {
	var w Writer
	w.BeginObject().key("name").Str(name)
	if opts.Idempotent {
		w.key("idempotent").Bool(true)
	}
	begun, err := HostCall("step.begin", borrowed(w.EndObject()))
	if CodeOf(err) == Unimplemented {
		return f()
	}
	if err != nil {
		return "", err
	}
	if done, _ := begun.Get("done").Bool(); done {
		return begun.Get("result"), nil
	}
	result, err := f()
	if err != nil {
		return "", err // the host takes a step that does not end for one that failed
	}
	var e Writer
	_, err = HostCall("step.end", borrowed(e.BeginObject().key("name").Str(name).key("result").Raw(result).EndObject()))
	return result, err
}
