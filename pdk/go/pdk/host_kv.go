package pdk

// A KVItem is a value that a plugin keeps under a key. Revision grows with each
// write of the key.
type KVItem struct {
	Key      string
	Value    []byte
	Revision int64
}

// KVGet returns the value of a key, and [NotFound] for a key without one. Keys
// belong to the plugin and to the tenant of the call.
func KVGet(key string) (KVItem, error) {
	var w Writer
	w.BeginObject().key("key").Str(key)
	response, err := HostCall("kv.get", borrowed(w.EndObject()))
	if err != nil {
		return KVItem{}, err
	}
	item, err := kvItem(response)
	item.Key = key
	return item, err
}

// KVPutOptions are the optional parts of [KVPut].
type KVPutOptions struct {
	// If sets a condition: the key must be at the revision At, 0 for absent;
	// [Conflict] if it is not.
	If bool
	At int64

	TTL int64 // milliseconds after which the key is gone; 0 is never
}

// KVPut keeps a value under a key and returns the key's new revision.
// [ResourceExhausted] if there is no room.
func KVPut(key string, value []byte, opts KVPutOptions) (revision int64, err error) {
	var w Writer
	w.BeginObject().key("key").Str(key).key("value").Bytes(value)
	opts.append(&w)
	response, err := HostCall("kv.put", borrowed(w.EndObject()))
	if err != nil {
		return 0, err
	}
	revision, _ = response.Get("revision").Int()
	return revision, nil
}

func (o *KVPutOptions) append(w *Writer) {
	if o.If {
		w.key("revision").Int(o.At)
	}
	if o.TTL != 0 {
		w.key("ttl_ms").Int(o.TTL)
	}
}

// KVDelete removes a key; one that is not there is no error.
func KVDelete(key string) error {
	var w Writer
	w.BeginObject().key("key").Str(key)
	_, err := HostCall("kv.delete", borrowed(w.EndObject()))
	return err
}

// A KVQuery says which keys [KVList] returns.
type KVQuery struct {
	Prefix string // that they begin with
	After  string // that they come after
	Limit  int    // at most; 0 is the host's
	Values bool   // with their values
}

// KVList returns keys in order. next, if it is not empty, is the After of the
// next page.
func KVList(q KVQuery) (items []KVItem, next string, err error) {
	var w Writer
	w.BeginObject()
	w.member("prefix", q.Prefix)
	w.member("after", q.After)
	if q.Limit != 0 {
		w.key("limit").Int(int64(q.Limit))
	}
	w.flag("values", q.Values)
	response, err := HostCall("kv.list", borrowed(w.EndObject()))
	if err != nil {
		return nil, "", err
	}
	for entry := range response.Get("entries").Elements() {
		item := KVItem{}
		if entry.Get("value") != "" {
			if item, err = kvItem(entry); err != nil {
				return nil, "", err
			}
		}
		item.Key, _ = entry.Get("key").Str()
		item.Revision, _ = entry.Get("revision").Int()
		items = append(items, item)
	}
	next, _ = response.Get("next").Str()
	return items, next, nil
}

func kvItem(r Raw) (KVItem, error) {
	value, ok := r.Get("value").Bytes()
	if !ok {
		return KVItem{}, Errorf(Internal, "the host's value is not base64")
	}
	revision, _ := r.Get("revision").Int()
	return KVItem{Value: value, Revision: revision}, nil
}
