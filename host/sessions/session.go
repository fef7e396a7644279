package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/threads"
)

// stateVersion is the version of a serialized session.
const sessionVersion = 1

// Session is a whole session, as a client keeps it or as a snapshot shows it. Its
// JSON is
//
//	{"version":1,"kind":"session","session","agent","custom"?,"messages":[...],
//	 "first"?,"artifacts":[...],"waiting"?,
//	 "providers"?:{...},"checkpoint"?:{...}}
type Session struct {
	ID    string // its id
	Agent string // the agent or network it is a session of

	// Custom is the application's state, a JSON object; nil if never set.
	Custom json.RawMessage
	// Messages are the conversation, without instructions. Of a session that a
	// server keeps they are its last ones: First is the position of the first.
	Messages  []*host.Message
	First     int
	Artifacts []host.Artifact
	// Waiting is the interrupted run whose questions are open, if there is one, of
	// a session that a client keeps.
	Waiting string
	// Checkpoint is where that run stopped, if the host has no journal that keeps it.
	// With [Keys] it is in the sealed session only.
	Checkpoint *runevent.Checkpoint
	// Providers are the states of context providers, by key, of a session that a
	// client keeps. These states are not for clients: with [Keys] they are in the
	// sealed session only; without, a client can read and change them.
	Providers map[string]json.RawMessage
}

type sessionJSON struct {
	Version   int                        `json:"version"`
	Kind      string                     `json:"kind"`
	Session   string                     `json:"session"`
	Agent     string                     `json:"agent,omitempty"`
	Custom    json.RawMessage            `json:"custom,omitempty"`
	Messages  []*host.Message            `json:"messages"`
	First     int                        `json:"first,omitempty"`
	Artifacts []host.Artifact            `json:"artifacts"`
	Waiting   string                     `json:"waiting,omitempty"`
	Providers map[string]json.RawMessage `json:"providers,omitempty"`

	Checkpoint *runevent.Checkpoint `json:"checkpoint,omitempty"`
}

const sessionKind = "session"

// MarshalJSON writes the session.
func (s *Session) MarshalJSON() ([]byte, error) {
	j := sessionJSON{Version: sessionVersion, Kind: sessionKind, Session: s.ID, Agent: s.Agent, Custom: s.Custom, Messages: s.Messages, First: s.First, Artifacts: s.Artifacts, Waiting: s.Waiting, Providers: s.Providers, Checkpoint: s.Checkpoint}
	if j.Messages == nil {
		j.Messages = []*host.Message{}
	}
	if j.Artifacts == nil {
		j.Artifacts = []host.Artifact{}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes, and a session that a client makes
// up: version and kind may be absent, and so may all the rest. Code
// failed_precondition for a session of another version, invalid_argument for
// other input. Unknown members are ignored.
func (s *Session) UnmarshalJSON(raw []byte) error {
	var version *int
	var kind *string
	members, err := readMembers(raw)
	if err == nil {
		err = members.read(member{"version", &version}, member{"kind", &kind})
	}
	if err != nil {
		return notASession("%w", err)
	}
	if v := version; v != nil && *v != sessionVersion {
		return host.Errorf(host.FailedPrecondition, "the session has version %d, which is not known here", *v).
			WithHint("use it with the version that wrote it, or a newer one; nothing was changed")
	}
	if k := kind; k != nil && *k != sessionKind {
		return notASession("its kind is %.40q, not %q", *k, sessionKind)
	}
	var out Session
	err = members.read(member{"session", &out.ID}, member{"agent", &out.Agent}, member{"custom", &out.Custom},
		member{"messages", &out.Messages}, member{"first", &out.First}, member{"artifacts", &out.Artifacts},
		member{"waiting", &out.Waiting}, member{"providers", &out.Providers}, member{"checkpoint", &out.Checkpoint})
	if err != nil {
		return notASession("%w", err)
	}
	if string(out.Custom) == "null" {
		out.Custom = nil
	}
	if err := out.check(); err != nil {
		return err
	}
	*s = out
	return nil
}

// members are those of a JSON object, by their exact names: encoding/json matches
// names in any case, so it could read a client's session differently than its
// writer did.
type members map[string]json.RawMessage

type member struct {
	name string
	into any
}

func readMembers(raw []byte) (m members, err error) {
	if err = json.Unmarshal(raw, &m); err == nil && m == nil {
		err = errors.New("it is null")
	}
	return m, err
}

func (m members) read(fields ...member) error {
	for _, f := range fields {
		raw, ok := m[f.name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, f.into); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func notASession(format string, args ...any) error {
	return host.Errorf(host.InvalidArgument, "this is not a session: %w", fmt.Errorf(format, args...))
}

// check refuses impossible sessions.
func (s *Session) check() error {
	if s.ID != "" {
		if err := checkSession(s.ID); err != nil {
			return err
		}
	}
	if len(s.Custom) > 0 {
		doc, err := host.ReadDocument(s.Custom)
		if err != nil {
			return notASession("custom: %w", err)
		}
		if !doc.IsObject() {
			return notASession("custom is not an object")
		}
		s.Custom = doc.JSON()
	}
	seen := make(map[string]bool, len(s.Messages))
	for i, m := range s.Messages {
		switch {
		case m == nil || !m.Role.Valid():
			return notASession("message %d has no known role", i)
		case m.Role == host.System:
			return notASession("message %d has role system", i)
		case m.ID != "" && seen[m.ID]:
			return notASession("message %d has an id that another has", i)
		}
		seen[m.ID] = true
	}
	return nil
}

// checkSession refuses an id that no session can have.
func checkSession(id string) error {
	if err := threads.ValidateID(id); err != nil {
		return host.Errorf(host.InvalidArgument, "session id: %w", err)
	}
	if strings.TrimSpace(id) == "" {
		return host.Errorf(host.InvalidArgument, "session id is blank").WithHint("leave it out for a fresh one")
	}
	return nil
}

// putArtifact adds an artifact: a named one replaces the one of its name.
func putArtifact(list []host.Artifact, a host.Artifact) []host.Artifact {
	for i := range list {
		if a.Name != "" && list[i].Name == a.Name {
			list[i] = a
			return list
		}
	}
	return append(list, a)
}
