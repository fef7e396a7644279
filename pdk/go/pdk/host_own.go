package pdk

// Own returns what the provider keeps in the thread, and its revision; "" and 0 if
// that is nothing. It is for the handlers of providers, and [FailedPrecondition]
// elsewhere. It is valid until the handler returns.
func Own() (value Raw, revision int64, err error) {
	response, err := HostCall("provider_state.get", "{}")
	if err != nil {
		return "", 0, err
	}
	revision, _ = response.Get("revision").Int()
	if value = response.Get("value"); value == "null" {
		value = ""
	}
	return value, revision, nil
}

// PutOwn keeps a value in the thread for the provider's next calls, in the place
// of what it kept; "" is nothing. It is stored with the turn, and forgotten if the
// run fails. [ResourceExhausted] if it is too large.
func PutOwn(value Raw) (revision int64, err error) { return putOwn(-1, value) }

// PutOwnAt is PutOwn if the stored value is still at the given revision (0 for no
// value), and [Conflict] otherwise.
func PutOwnAt(at int64, value Raw) (revision int64, err error) { return putOwn(at, value) }

func putOwn(at int64, value Raw) (int64, error) {
	if value == "" {
		value = "null"
	}
	var w Writer
	w.BeginObject().key("value").Raw(value)
	if at >= 0 {
		w.key("revision").Int(at)
	}
	response, err := HostCall("provider_state.put", borrowed(w.EndObject()))
	if err != nil {
		return 0, err
	}
	revision, _ := response.Get("revision").Int()
	return revision, nil
}
