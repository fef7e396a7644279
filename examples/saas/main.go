// Command saas is a service with customers: a login and rows of its own, and for each
// customer conversations, uploaded plugins, a budget, a usage page and deletion with a proof.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"html/template"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/usage"
)

//go:embed agenthost.yaml rules.yaml usage.html pages
var files embed.FS

var usagePage = template.Must(template.ParseFS(files, "usage.html"))

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "the address to listen at")
	data := flag.String("data", "saas-data", "a directory, or postgres://... for several hosts")
	calls := flag.Int64("calls", 100, "how many calls of a model a customer has in an hour")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *data, *calls); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends. Then runs and answers have ten seconds.
func run(ctx context.Context, address, data string, calls int64) (err error) {
	p, err := project.Load(ctx, ".", &project.Options{FS: files, Data: data})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	s, err := newService(ctx, p, calls)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	log.Printf("serving at http://%s", listener.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(p.Runs().Drain(late), server.Shutdown(late))
}

type service struct {
	project  *project.Project
	accounts *accounts
	api      *httpapi.API
	plan     tenants.Plan // of each customer; a product sells several
}

func newService(ctx context.Context, p *project.Project, calls int64) (*service, error) {
	s := &service{project: p, accounts: &accounts{db: p.Data().Driver, hashing: make(chan struct{}, 2)}}
	s.plan.Usage.Limits = []usage.Limit{{Resource: usage.ModelCalls, Amount: calls, Window: usage.Every(time.Hour)}}
	plugins, err := p.Library(ctx)
	if err != nil {
		return nil, err
	}
	s.api, err = httpapi.New(s.authenticate, &httpapi.Options{
		Runs: p.Runs(), Targets: p, Threads: p.Threads(), Ledger: p.Ledger(), Plugins: plugins,
	})
	return s, err
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.api)
	mux.Handle("GET /{$}", http.RedirectHandler("/pages/", http.StatusSeeOther))
	mux.Handle("GET /pages/", http.FileServerFS(files))
	mux.Handle("GET /usage", form(s.usage))
	mux.Handle("POST /signup", form(s.signUp))
	mux.Handle("POST /login", form(s.logIn))
	mux.Handle("POST /delete", form(s.delete))
	return http.NewCrossOriginProtection().Handler(mux) // pages of other sites cannot act with a cookie
}

// authenticate makes the service's own login the credential of the API.
func (s *service) authenticate(r *http.Request) (*keys.Principal, error) {
	who, err := s.accounts.of(r)
	if err == nil {
		err = s.project.Tenants().Admit(who.Tenant) // not while it is suspended or deleted
	}
	return who, err
}

// form bounds a request, and answers an error as the API does.
func form(next func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(30 * time.Second)
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if err := next(w, r.WithContext(ctx)); err != nil {
			httpapi.NewProblem(fault.ForClient(err, ""), "").Answer(w)
		}
	})
}

func (s *service) signUp(w http.ResponseWriter, r *http.Request) error {
	tenant, email, password := r.FormValue("customer"), r.FormValue("email"), r.FormValue("password")
	if !customer.MatchString(tenant) || email == "" || len(password) < 12 {
		return host.Errorf(host.InvalidArgument, "the customer, the address or the password cannot be used").
			WithHint("a customer has small letters, digits and hyphens, a password at least 12 bytes")
	}
	if _, err := s.project.Tenants().Create(r.Context(), tenant, &tenants.Spec{Plan: s.plan}); err != nil {
		return err
	}
	if err := s.accounts.add(r.Context(), tenant, email, password); err != nil {
		return err
	}
	return s.logIn(w, r)
}

func (s *service) logIn(w http.ResponseWriter, r *http.Request) error {
	cookie, err := s.accounts.begin(r.Context(), r.FormValue("customer"), r.FormValue("email"), r.FormValue("password"))
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: cookie, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/pages/", http.StatusSeeOther)
	return nil
}

func (s *service) usage(w http.ResponseWriter, r *http.Request) error {
	who, err := s.authenticate(r)
	if err != nil {
		return err
	}
	bill, err := s.project.Ledger().BillOf(r.Context(), who.Tenant, usage.MonthOf(time.Now()))
	used, failed := s.project.Ledger().Used(r.Context(), who.Tenant)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	return usagePage.Execute(w, map[string]any{"Bill": bill, "Used": used})
}

// delete removes a customer with all data, and answers with the proof.
func (s *service) delete(w http.ResponseWriter, r *http.Request) error {
	who, err := s.authenticate(r)
	if err != nil {
		return err
	}
	if r.FormValue("customer") != who.Tenant {
		return host.Errorf(host.InvalidArgument, "the name of the customer is not repeated").WithHint("write %s", who.Tenant)
	}
	ctx := context.WithoutCancel(r.Context()) // a deletion that has begun is completed, also after a crash
	if err := s.project.Tenants().Delete(ctx, who.Tenant, s.project.Erasures()); err != nil {
		return err
	}
	proof, err := s.project.Erasures().Prove(ctx, who.Tenant)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(proof)
}
