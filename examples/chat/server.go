package main

import (
	"crypto/rand"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/stream"
)

//go:embed page
var page embed.FS

// maxRequestBytes bounds a request: a conversation that the client keeps is sent
// whole with each turn.
const maxRequestBytes = 4 << 20

func (a *app) handler() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /api/threads", a.listThreads)
	mux.HandleFunc("GET /api/threads/{id}", a.showThread)
	mux.HandleFunc("POST /api/chat", a.chat)
	return guarded(http.NewCrossOriginProtection().Handler(mux))
}

// guarded bounds what a request may be, and what a page may do.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxRequestBytes)
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// tenantCookie proves whose conversations a request is for. Here it is a random
// number, given to a browser that comes without one; a product has its login in this
// place.
const tenantCookie = "chat_session"

// tenant returns whose request it is: never what the body says. The host has a word
// in it, as threads are read from the store without a run: a login that names no
// tenant is answered with 401.
func (a *app) tenant(w http.ResponseWriter, r *http.Request) (string, error) {
	return a.host.Tenant(tenantSession(w, r))
}

func tenantSession(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(tenantCookie); err == nil && isSession(c.Value) {
		return c.Value
	}
	b := make([]byte, 16)
	rand.Read(b)
	session := hex.EncodeToString(b)
	http.SetCookie(w, &http.Cookie{
		Name: tenantCookie, Value: session, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode, MaxAge: int((365 * 24 * time.Hour).Seconds()),
	})
	return session
}

func isSession(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 16
}

// listThreads answers {"threads":[{"id","title","updated"}],"scripted"}.
func (a *app) listThreads(w http.ResponseWriter, r *http.Request) {
	who, err := a.tenant(w, r)
	if err != nil {
		a.fail(w, err)
		return
	}
	list, err := a.store.list(r.Context(), who)
	if err != nil {
		a.fail(w, err)
		return
	}
	a.answer(w, struct {
		Threads  []listed `json:"threads"`
		Scripted bool     `json:"scripted"`
	}{list, a.scripted})
}

// showThread answers {"messages":[...]}, the stored messages that a page begins
// with. A thread that is not there, or another's, has none.
func (a *app) showThread(w http.ResponseWriter, r *http.Request) {
	who, err := a.tenant(w, r)
	if err != nil {
		a.fail(w, err)
		return
	}
	loaded, err := a.store.history.Get(r.Context(), &host.HistoryRequest{Tenant: who, Thread: r.PathValue("id")})
	if err != nil {
		a.fail(w, err)
		return
	}
	messages := loaded.Messages
	if messages == nil {
		messages = []*host.Message{}
	}
	a.answer(w, struct {
		Messages []*host.Message `json:"messages"`
	}{messages})
}

// chatRequest asks for a turn.
type chatRequest struct {
	Thread string `json:"thread"` // "" begins one
	ID     string `json:"id"`     // of the message, made by the client: sent twice it is stored once
	Text   string `json:"text"`   // "" continues the conversation: it repeats a turn that failed

	// Messages is the conversation so far, as the client has it. Without it, the
	// thread is loaded.
	Messages []*host.Message `json:"messages"`
}

// chat answers with the events of a run, and with AgentKit's chunks to
// ?stream=agentkit.
func (a *app) chat(w http.ResponseWriter, r *http.Request) {
	who, err := a.tenant(w, r)
	if err != nil {
		a.fail(w, err)
		return
	}
	in, err := readChat(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	req := &host.Request{Tenant: who, Thread: in.Thread, Messages: in.Messages}
	if in.Text != "" {
		req.Input = host.UserText(in.Text)
		if in.ID != "" {
			req.Input.ID = in.ID
		}
	}
	opts := &stream.ServeOptions{}
	if r.URL.Query().Get("stream") == "agentkit" {
		opts.Encoder = stream.AgentKit(&stream.AgentKitOptions{Standalone: true})
	}
	events := a.host.Stream(r.Context(), a.agent, req)
	if a.traces != nil {
		events = a.traces.Keep(events)
	}
	if err := stream.Serve(w, r, events, opts); err != nil && host.CodeOf(err) != host.Canceled {
		a.logger.Warn("chat", "error", err)
	}
}

// readChat reads a turn. What a client says of the conversation is shown to the
// model in that client's own thread alone, and stored nowhere; but it cannot speak
// as the system.
func readChat(r *http.Request) (*chatRequest, error) {
	var in chatRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, host.Errorf(host.ResourceExhausted, "the request is more than %d bytes", large.Limit)
		}
		return nil, host.Errorf(host.InvalidArgument, "the request is not what it should be: %w", err)
	}
	for _, m := range in.Messages {
		if m == nil || m.Role == host.System {
			return nil, host.Errorf(host.InvalidArgument, "messages are the user's, the assistant's and its tools'")
		}
	}
	return &in, nil
}

func (a *app) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		a.logger.Debug("answer", "error", err) // the client has left
	}
}

// fail answers with {"error":{"code","message"}}.
func (a *app) fail(w http.ResponseWriter, err error) {
	e := fault.ForClient(err, "")
	if e.Error() != err.Error() {
		a.logger.Error("request", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	e.SetRetryAfter(w.Header())
	w.WriteHeader(e.Code.HTTPStatus())
	_ = json.NewEncoder(w).Encode(map[string]*host.Error{"error": e}) // the client may have left
}
