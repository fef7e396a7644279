package rawbytes

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// plain returns the request with its bytes in base64.
func (p *Payload) plain(req []byte) ([]byte, error) {
	name := fields[p.op].request
	var members map[string]json.RawMessage
	if err := jsondoc.Unmarshal(req, &members); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "request of %s: %v", p.op, err)
	}
	var f *Field
	if raw, has := members[name]; has && name != "" {
		if err := json.Unmarshal(raw, &f); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "request of %s: %v", p.op, err)
		}
	}
	if err := p.Take(p.op, f); err != nil {
		return nil, err
	}
	if f == nil || f.count == nil {
		return req, nil
	}
	members[name], _ = json.Marshal(f.Bytes) // bytes are always JSON
	return json.Marshal(members)
}

// split takes the bytes out of a response, which another function than the host's own may
// have made: what is not base64 stays.
func (p *Payload) split(response []byte) ([]byte, error) {
	name := fields[p.op].response
	if name == "" {
		return response, nil
	}
	var members map[string]json.RawMessage
	if err := jsondoc.Unmarshal(response, &members); err != nil {
		return nil, host.Errorf(host.Internal, "response of %s: %v", p.op, err)
	}
	if p.op != "kv.list" {
		p.takeOut(members, name)
		return json.Marshal(members)
	}
	list, has := members["entries"]
	if !has {
		return response, nil
	}
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal(list, &entries); err != nil {
		return nil, host.Errorf(host.Internal, "response of %s: %v", p.op, err)
	}
	for _, entry := range entries {
		p.takeOut(entry, name)
	}
	var err error
	if members["entries"], err = json.Marshal(entries); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// takeOut replaces bytes by the number of them.
func (p *Payload) takeOut(members map[string]json.RawMessage, name string) {
	var v []byte
	if raw := members[name]; len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &v) == nil {
		p.response = append(p.response, v...)
		members[name], _ = json.Marshal(len(v)) // a number is always JSON
	}
}
