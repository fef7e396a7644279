package plugincmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/guestprofile"
	"github.com/agenthost/agenthost/host/plugin/guestprofile/pprofile"
)

// A profile is of this many calls, or of those that fit into profileTime: functions that
// run at some calls only, such as a collection of garbage, are to be seen too.
const (
	profileCalls = 100
	profileTime  = 5 * time.Second
)

// benchProfile is what bench --json says of a profile.
type benchProfile struct {
	File         string `json:"file"`
	Calls        int64  `json:"calls"`
	Instructions int64  `json:"instructions"`
}

// profileWriter returns what writes a profile to a file of that name, with a title; nil for
// a name whose end says nothing.
func profileWriter(name string) func(w io.Writer, p *guestprofile.Profile, title string) error {
	switch {
	case strings.HasSuffix(name, ".svg"):
		return func(w io.Writer, p *guestprofile.Profile, title string) error { return p.WriteSVG(w, title) }
	case strings.HasSuffix(name, ".pb.gz"):
		return func(w io.Writer, p *guestprofile.Profile, _ string) error { return pprofile.Write(w, p) }
	}
	return nil
}

// profile makes calls in a runtime of its own, because code that reports its functions is
// slow, and writes where their instructions went.
func (b *benchRun) profile(ctx context.Context) (*benchProfile, error) {
	profile := guestprofile.New()
	err := b.call.local.plugins.WithProfiler(ctx, func(rt *plugin.Runtime) error { return b.profileCalls(ctx, rt, profile) })
	if err != nil {
		return nil, err
	}
	title := fmt.Sprintf("%s %s", open.PluginID(b.call.file), b.call.export)
	write := profileWriter(b.flags.flame)
	if err := files.Stream(b.flags.flame, func(w io.Writer) error { return write(w, profile, title) }); err != nil {
		return nil, err
	}
	return &benchProfile{File: b.flags.flame, Calls: profile.Calls(), Instructions: profile.Instructions()}, nil
}

func (b *benchRun) profileCalls(ctx context.Context, rt *plugin.Runtime, profile *guestprofile.Profile) error {
	p, err := b.call.loadQuietly(ctx, rt)
	if err != nil {
		return err
	}
	opts, err := b.call.options()
	if err != nil {
		return err
	}
	opts.Emit, opts.Profile = nil, profile
	begun := time.Now()
	for n := 0; n < profileCalls && (n == 0 || time.Since(begun) < profileTime); n++ {
		if _, err := b.call.call(ctx, p, opts); err != nil {
			return withProfileHint(err)
		}
	}
	return nil
}

// withProfileHint adds to the error of a call that ran out of time why that can be the
// profile's doing.
func withProfileHint(err error) error {
	if host.CodeOf(err) != host.DeadlineExceeded {
		return err
	}
	return host.Errorf(host.DeadlineExceeded, "profile: %w", err).
		WithHint("code that reports its functions is many times slower: give the calls more time, as in --timeout 1m")
}
