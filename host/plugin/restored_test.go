package plugin

// Scenario: a benchmark calls one instance and times how long restoring it takes.

import (
	"context"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// Restored is an instance that is brought back to its image after each call, for
// benchmarks that measure that alone.
type Restored struct {
	inst  *instance
	other []byte
}

// NewRestored makes an instance of a plugin.
func NewRestored(ctx context.Context, p *Plugin) (*Restored, error) {
	inst, err := p.newInstance(ctx, p.bindings.of("a"), &fairsched.Flow{})
	if err != nil {
		return nil, err
	}
	return &Restored{inst, make([]byte, inst.guest.memory.Size())}, nil
}

// Call calls the instance, and returns how long it then took to restore it, and to
// copy memory of the same size.
func (r *Restored) Call(b *testing.B, input []byte) (restoring, copying time.Duration) {
	b.Helper()
	r.inst.beginCall(b.Context(), &callRequest{export: abi.Tool, input: input}, time.Now())
	if _, _, err := r.inst.run(abi.Tool); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if !r.inst.restore() {
		b.Fatal("not restored")
	}
	restoring = time.Since(began)
	began = time.Now()
	copy(r.other, r.inst.guest.bytes(len(r.other)))
	return restoring, time.Since(began)
}

// Close closes the instance.
func (r *Restored) Close() { r.inst.Close() }
